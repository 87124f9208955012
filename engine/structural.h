// The structural ops, which the engine itself needs: fill, copy, view, expand, sum_to, cast.
#pragma once

#include <vector>

#include "tessera/engine/op.h"

namespace tessera {

// The same elements under another shape. No bytes move.
Tensor reshape(const Tensor& x, const Shape& shape);
// The flattened sample: [n, ...] -> [n, product of the rest].
Tensor flatten(const Tensor& x);
// Rows [begin, end) of the first axis. No bytes move.
Tensor rows(const Tensor& x, int64_t begin, int64_t end);
// x repeated along axes of size 1 (and new leading axes) up to `shape`, as numpy's broadcast_to.
Tensor expand(const Tensor& x, const Shape& shape);
// The sum over the axes that expand(., from `shape` to x's) repeats: its gradient.
Tensor sum_to(const Tensor& x, const Shape& shape);
// Another dtype; integers to floating point exactly as C++ converts, floating point to integers
// truncated. The gradient passes between floating-point types.
Tensor cast(const Tensor& x, DType dtype);
// A copy in memory of its own, on `device`.
Tensor copy(const Tensor& x, Device device);
inline Tensor copy(const Tensor& x) { return copy(x, x.device()); }
// The sum and the mean of all elements: shape [].
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);
// Over some axes, each named once (negative: from the end), which vanish or, with `keep`, stay with
// size 1.
Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keep = false);
Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keep = false);

}  // namespace tessera
