// flip_left_right: flips images horizontally: y[n, h, i, c] = x[n, h, w - 1 - i, c]. Throws
// ShapeError unless x is uint8 [n, h, w, c].
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor flip_left_right(const Tensor& images);

}  // namespace tessera
