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

// channel_shuffle (Zhang et al. 2017): interleaves the channels of consecutive groups.
//
//   x [.., c]   y[.., i groups + g] = x[.., g c / groups + i]
//
// Any dtype. Throws ShapeError: x a scalar, or groups that do not divide c.
Tensor channel_shuffle(const Tensor& x, int64_t groups);

}  // namespace tessera
