// Values for tests of kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/engine/dtype.h"

namespace tessera {

// Returns values in [-1, 1), a different sequence for each seed.
template <class T>
std::vector<T> values(int64_t count, uint32_t seed) {
  std::vector<T> v(count);
  uint32_t state = seed * 2654435761u + 12345u;
  for (T& e : v) {
    state = state * 1664525u + 1013904223u;
    const auto number = static_cast<Computed<T>>(static_cast<int32_t>(state) >> 8);
    e = static_cast<T>(number / static_cast<Computed<T>>(1 << 23));
  }
  return v;
}

}  // namespace tessera
