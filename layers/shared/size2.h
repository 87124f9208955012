// Size2: rows and columns of an image. One number sets both.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

struct Size2 {
  int64_t h = 1, w = 1;
  constexpr Size2() = default;
  constexpr Size2(int64_t both) : h(both), w(both) {}
  constexpr Size2(int64_t h, int64_t w) : h(h), w(w) {}
  bool operator==(const Size2&) const = default;
  std::string text() const { return std::to_string(h) + "x" + std::to_string(w); }
};

}  // namespace tessera
