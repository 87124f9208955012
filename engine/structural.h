// The structural ops, which the engine itself needs: fill, copy, view, expand, sum_to, cast.
#pragma once

#include <initializer_list>
#include <vector>

#include "tessera/engine/op.h"

namespace tessera {

// The same elements under another shape. No bytes move.
Tensor reshape(const Tensor& x, const Shape& shape);
// One of the sizes may be -1: whatever is left.
Tensor reshape(const Tensor& x, std::initializer_list<int64_t> sizes);
// The flattened sample: [n, ...] -> [n, product of the rest].
Tensor flatten(const Tensor& x);
// Rows [begin, end) of the first axis, negative: from its end. No bytes move.
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
// y[i0, i1, ...] is the element of x whose index along axis axes[k] is ik: each axis is named once.
Tensor permute(const Tensor& x, const std::vector<int>& axes);
// With two axes exchanged.
Tensor transpose(const Tensor& x, int first = -2, int second = -1);
// y[.., j, ..] = x[.., index[.., j, ..], ..] along one axis; the indices are integers, shaped like
// x but for that axis, and count from the end where they are negative. Throws Error for an index
// outside; on a GPU and in a captured step it gives NaN, of integers 0.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
// labels [..] -> [.., classes]: 1 at the label, 0 elsewhere. A label outside as in gather; on
// a GPU and in a captured step its row is all 0.
Tensor one_hot(const Tensor& labels, int64_t classes, DType dtype = DType::f32);
// The sum and the mean of all elements: shape []. Integers are summed as int64.
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);
// Over some axes, each named once (negative: from the end), which vanish or, with `keep`, stay with
// size 1.
Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keep = false);
Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keep = false);
// sum((x - mean(x))^2) / (n - correction) of the n elements that are averaged; correction 0 gives
// the biased variance. NaN if n <= correction.
Tensor var(const Tensor& x);
Tensor var(const Tensor& x, const std::vector<int>& axes, bool keep = false, double correction = 1);

}  // namespace tessera
