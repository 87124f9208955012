// 16-bit floating-point numbers in kernels, which compute with them in float32. For .cu files. The
// conversions are those of engine/dtype.h; the GPU's own instructions change the bits of NaNs, so
// these are selected, without a branch.
#pragma once

#include "tessera/engine/dtype.h"
#include "tessera/runtime/cuda/device_code.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace tessera {

__device__ inline float to_float(float x) { return x; }
__device__ inline double to_float(double x) { return x; }
__device__ inline float to_float(bfloat16 x) { return x; }
__device__ inline float to_float(float16 x) {
#if defined(__CUDA_ARCH__)
  const float wide = __half2float(__ushort_as_half(x.bits));
  const uint32_t bits = x.bits;
  const uint32_t nan = (bits & 0x8000u) << 16 | 0x7f800000u | (bits & 0x3ffu) << 13;
  return wide == wide ? wide : half::float_of(nan);
#else
  return x;
#endif
}

// Rounds once to the stored type S; float and double stay as they are.
template <class S, class T>
__device__ S to_stored(T x) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_same_v<T, float> && std::is_same_v<S, float16>) {
    const uint32_t u = half::bits_of(x);
    const uint32_t nan = (u >> 16 & 0x8000u) | 0x7e00u | (u >> 13 & 0x3ffu);
    const uint32_t bits = x == x ? __half_as_ushort(__float2half_rn(x)) : nan;
    return __builtin_bit_cast(float16, static_cast<uint16_t>(bits));
  }
  if constexpr (std::is_same_v<T, float> && std::is_same_v<S, bfloat16> && __CUDA_ARCH__ >= 800)
    if (x == x) return __builtin_bit_cast(bfloat16, __bfloat16_as_ushort(__float2bfloat16_rn(x)));
#endif
  return S(x);
}

// Returns the values of a pack as float32; those of float and double as they are.
template <class S, int N>
__device__ auto widened(const Pack<S, N>& values) {
  Pack<decltype(to_float(S{})), N> wide;
  for (int k = 0; k < N; ++k) wide[k] = to_float(values[k]);
  return wide;
}
template <class S, class T, int N>
__device__ Pack<S, N> narrowed(const Pack<T, N>& values) {
  Pack<S, N> narrow;
  for (int k = 0; k < N; ++k) narrow[k] = to_stored<S>(values[k]);
  return narrow;
}

}  // namespace tessera
