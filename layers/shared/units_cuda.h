// Units of bytes for kernels that only copy elements of any dtype: the largest that sizes and
// addresses allow.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>

#include "tessera/runtime/cuda/device_code.h"

namespace tessera {

using Unit16 = Pack<uint32_t, 4>;

// Returns the largest of 16, 8, 4, 2 and 1 bytes that divides all sizes and addresses.
inline int64_t largest_unit(std::initializer_list<int64_t> bytes, std::initializer_list<void*> at) {
  int64_t unit = 16;
  for (const int64_t size : bytes) unit = std::gcd(unit, size);
  for (const void* address : at)
    unit = std::gcd(unit, static_cast<int64_t>(reinterpret_cast<uintptr_t>(address) % 16));
  return unit;
}

// Calls run(Unit()) with a type of `bytes`, a result of largest_unit().
template <class Run>
void with_unit(int64_t bytes, Run&& run) {
  if (bytes == 16) return run(Unit16{});
  if (bytes == 8) return run(uint64_t{});
  if (bytes == 4) return run(uint32_t{});
  if (bytes == 2) return run(uint16_t{});
  run(uint8_t{});
}

}  // namespace tessera
