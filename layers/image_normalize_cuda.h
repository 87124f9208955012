// What becomes of a byte of a picture, on every device, and the kernel for a GPU, which is defined
// only in builds with CUDA.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/layers/image_normalize.h"

namespace tessera {

template <class T>
TESSERA_HOST_DEVICE T normalized_byte(int value, double mean, double deviation) {
  return static_cast<T>((value / 255.0 - mean) / deviation);
}

void image_normalize_cuda(CudaContext& where, const ImageNormalizeParams& params, const Buffer& x,
                          const Buffer& y);

}  // namespace tessera
