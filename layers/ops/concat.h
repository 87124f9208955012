// concat: tensors one after the other along one axis (-1: the last).
//
//   x0 [.., a, ..], x1 [.., b, ..], ...   y [.., a + b + ..., ..]
//
// Any dtype, the same for all; the gradients are slices. Throws ShapeError: no tensors or more than
// 32, no such axis, or sizes that differ along another axis.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

Tensor concat(const Tensors& tensors, int axis = -1);
// Along a new axis, which comes to stand at `axis`; all of one shape.
Tensor stack(const Tensors& tensors, int axis = 0);

}  // namespace tessera
