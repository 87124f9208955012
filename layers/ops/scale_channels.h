// scale_channels: multiplies each channel of each image by its own number (squeeze and excitation).
//
//   x [n, h, w, c]   scale [n, c]   y[b,i,j,k] = x[b,i,j,k] scale[b,k]
//
// Any floating-point dtype. Throws ShapeError if x is not of rank 4, or scale is not [n, c].
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor scale_channels(const Tensor& x, const Tensor& scale);

}  // namespace tessera
