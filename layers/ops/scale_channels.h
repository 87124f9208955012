// scale_channels: every channel of every image times a number of its own (squeeze and excitation).
//
//   x [n, h, w, c]   scale [n, c]   y[b,i,j,k] = x[b,i,j,k] scale[b,k]
//
// float32 or float64. Throws ShapeError when x is not of rank 4, or scale not [n, c].
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor scale_channels(const Tensor& x, const Tensor& scale);

}  // namespace tessera
