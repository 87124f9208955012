// The microkernels of the native convolutions for this processor's best instruction set.
#pragma once

#include "tessera/layers/conv2d/cpu/depthwise_simd.h"
#include "tessera/layers/shared/gemm_simd.h"

namespace tessera {

template <class T>
const GemmMicrokernelsOf<T>& microkernels() {
  if constexpr (std::is_same_v<T, bfloat16>)
    return TESSERA_SELECT_BF16_MICROKERNELS(bf16_gemm_microkernels);
  else
    return microkernels_for<T>(TESSERA_SELECT_AVX_MICROKERNELS(gemm_microkernels));
}

template <class T>
const DepthwiseMicrokernelsOf<T>& depthwise() {
  return microkernels_for<T>(TESSERA_SELECT_AVX_MICROKERNELS(depthwise_microkernels));
}

}  // namespace tessera
