// max, min, argmax, argmin: the largest and the smallest value along one axis, and their indices.
//
//   x [.., n, ..]   max, min: y like x without the axis   argmax, argmin: int64, shape of y
//
// A NaN counts as the largest, and as the smallest. The first of equal values counts, and gets the
// gradient. `axis` may be negative: from the end. If `keep` is set, the axis stays, with size 1.
// Throw ShapeError: x is not floating point, there is no such axis, or it has no elements.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor max(const Tensor& x, int axis, bool keep = false);
Tensor argmax(const Tensor& x, int axis, bool keep = false);
Tensor min(const Tensor& x, int axis, bool keep = false);
Tensor argmin(const Tensor& x, int axis, bool keep = false);

}  // namespace tessera
