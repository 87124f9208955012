// Conversions between arrays of 16 bits and of float32, rounding as engine/dtype.h does.
#pragma once

#include <cstdint>

#include "tessera/engine/dtype.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

// Convert n elements on the calling thread; `type` has 16 bits. x of widen_half() is read from
// element `first` on; y of round_to_half() may be x.
void widen_half(DType type, const void* x, int64_t first, int64_t n, float* y);
void narrow_to_half(DType type, const float* x, int64_t n, void* y);
void round_to_half(DType type, const float* x, int64_t n, float* y);

// The microkernels, for each instruction set (engine/pointwise_simd.cc).
template <class H>
struct HalfMicrokernelsOf {
  void (*widen)(const H* x, int64_t n, float* y);
  void (*narrow)(const float* x, int64_t n, H* y);
  void (*round)(const float* x, int64_t n, float* y);  // both; y may be x
};
struct HalfMicrokernels {
  HalfMicrokernelsOf<bfloat16> bf16;
  HalfMicrokernelsOf<float16> f16;
};
TESSERA_DECLARE_MICROKERNELS(HalfMicrokernels, half_microkernels)

}  // namespace tessera
