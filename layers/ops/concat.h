// concat: joins tensors along one axis (-1: the last).
//
//   x0 [.., a, ..], x1 [.., b, ..], ...   y [.., a + b + ..., ..]
//
// Any dtype, but one for all; the gradients are slices. Throws ShapeError: no tensors or more than
// 32, several dtypes, no such axis, or sizes that differ along another axis.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

Tensor concat(const Tensors& tensors, int axis = -1);
// Joins tensors of one shape along a new axis at position `axis`.
Tensor stack(const Tensors& tensors, int axis = 0);

}  // namespace tessera
