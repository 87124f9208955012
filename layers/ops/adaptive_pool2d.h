// Pooling to a given output size: window i along an axis of h pixels covers pixels floor(i h / out)
// to ceil((i + 1) h / out), so windows may overlap and differ by a pixel.
//
//   x [n, h, w, c]   y [n, out.h, out.w, c]
//
// If out divides the image size, this is pool2d; else it is composed of slices. Any floating-point
// dtype. Throws ShapeError: x not of rank 4 or without pixels, or out smaller than 1.
#pragma once

#include "tessera/engine/tensor.h"
#include "tessera/layers/shared/size2.h"

namespace tessera {

Tensor adaptive_max_pool2d(const Tensor& x, Size2 out);
Tensor adaptive_average_pool2d(const Tensor& x, Size2 out);

}  // namespace tessera
