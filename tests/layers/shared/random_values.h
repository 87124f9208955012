// Values for tests of kernels.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera {

// Returns values in [-1, 1), a different sequence for each seed.
template <class T>
std::vector<T> values(int64_t count, uint32_t seed) {
  std::vector<T> v(count);
  uint32_t state = seed * 2654435761u + 12345u;
  for (T& e : v) {
    state = state * 1664525u + 1013904223u;
    e = static_cast<T>(static_cast<int32_t>(state) >> 8) / static_cast<T>(1 << 23);
  }
  return v;
}

}  // namespace tessera
