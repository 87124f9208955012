// flip_left_right: images with left and right exchanged: uint8 x [n, h, w, c], y[.., i, c] = x[..,
// w-1-i, c]. Throws ShapeError for anything else.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor flip_left_right(const Tensor& images);

}  // namespace tessera
