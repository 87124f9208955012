// The built-ins of nvcc, for .cu files that are compiled as C++ (-include puts this file before
// them). Threads of a block are fibers of one host thread; they switch only when they wait for each
// other (block.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "block.h"
#include "launch.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <math.h>

// The launch would not have the size of a __shared__ variable, and its bytes could not be checked.
#undef __shared__
#define __shared__ static_assert(false, "shared memory is taken with dynamic_shared()");
// Read by max_threads(). Clang does not take such a number from a template's parameters.
#undef __launch_bounds__
#if defined(__x86_64__) && !defined(__clang__)
#define __launch_bounds__(...)                                                       \
  __attribute__((patchable_function_entry(::cuda_double::bound_threads(__VA_ARGS__), \
                                          ::cuda_double::bound_threads(__VA_ARGS__))))
#else
#define __launch_bounds__(...)
#endif
#undef __grid_constant__
#define __grid_constant__
#define __noinline__

inline constexpr int warpSize = 32;

inline void __syncthreads(::cuda_double::Site site = ::cuda_double::Site::here()) {
  ::cuda_double::wait_for_block(site);
}

inline void __syncwarp(unsigned mask = ~0u,
                       ::cuda_double::Site site = ::cuda_double::Site::here()) {
  ::cuda_double::exchange(mask, nullptr, 0, ::cuda_double::lane(), site);
}

namespace cuda_double {

constexpr int bound_threads(int threads, int /*blocks at once*/ = 0) { return threads; }

// Returns the lane to read, or the caller's own if `wanted` is outside of its part of the warp.
inline int lane_within(int wanted, int width) {
  const int first = lane() / width * width;
  return wanted >= first && wanted < first + width ? wanted : lane();
}

template <class T>
T shuffle(unsigned mask, T value, int from, Site site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kLargestExchange);
  exchange(mask, &value, sizeof value, from, site);
  return value;
}

}  // namespace cuda_double

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32,
              ::cuda_double::Site site = ::cuda_double::Site::here()) {
  const int first = ::cuda_double::lane() / width * width;
  return ::cuda_double::shuffle(mask, value, first + (from & (width - 1)), site);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32,
                 ::cuda_double::Site site = ::cuda_double::Site::here()) {
  const int from = ::cuda_double::lane_within(::cuda_double::lane() - static_cast<int>(by), width);
  return ::cuda_double::shuffle(mask, value, from, site);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32,
                   ::cuda_double::Site site = ::cuda_double::Site::here()) {
  const int from = ::cuda_double::lane_within(::cuda_double::lane() + static_cast<int>(by), width);
  return ::cuda_double::shuffle(mask, value, from, site);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32,
                  ::cuda_double::Site site = ::cuda_double::Site::here()) {
  const int from = ::cuda_double::lane_within(::cuda_double::lane() ^ with, width);
  return ::cuda_double::shuffle(mask, value, from, site);
}

template <class T>
T __ldg(const T* from) {
  return *from;
}

inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / ::sqrt(x); }
inline int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
inline float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}

// Only for integers: a sum of floats would depend on the order in which threads arrive.
template <class T, class V>
T atomicAdd(T* to, V value) {
  static_assert(std::is_integral_v<T>, "a sum of floats needs a fixed order");
  const T before = *to;
  *to = static_cast<T>(before + static_cast<T>(value));
  return before;
}
