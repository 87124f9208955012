// The microkernels of the native convolutions for this processor's best instruction set.
#pragma once

#include "tessera/layers/conv2d/cpu/depthwise_simd.h"
#include "tessera/layers/shared/gemm_simd.h"

namespace tessera {

template <class T>
const DepthwiseMicrokernelsOf<T>& depthwise() {
  return microkernels_for<T>(TESSERA_SELECT_AVX_MICROKERNELS(depthwise_microkernels));
}

}  // namespace tessera
