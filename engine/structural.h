// The structural ops, which the engine itself needs: fill, copy, view, expand, sum_to, cast.
#pragma once

#include <initializer_list>
#include <vector>

#include "tessera/engine/op.h"

namespace tessera {

// Returns a view of the same elements under another shape.
Tensor reshape(const Tensor& x, const Shape& shape);
// Accepts one size of -1, which is inferred.
Tensor reshape(const Tensor& x, std::initializer_list<int64_t> sizes);
// Flattens each sample: [n, ...] -> [n, product of the rest].
Tensor flatten(const Tensor& x);
// Returns a view of rows [begin, end) of the first axis; negative indices count from its end.
Tensor rows(const Tensor& x, int64_t begin, int64_t end);
// Repeats x along axes of size 1 (and new leading axes) up to `shape`, as numpy's broadcast_to.
Tensor expand(const Tensor& x, const Shape& shape);
// Sums over the axes that expand(., from `shape` to x's) repeats: its gradient.
Tensor sum_to(const Tensor& x, const Shape& shape);
// Converts to another dtype: integers to floating point as C++ does, floating point to integers
// truncated. The gradient passes between floating-point types. Fuses, except for float64 and
// integers.
Tensor cast(const Tensor& x, DType dtype);
// Returns compute(x), a result of several ops with the dtype of x: for 16 bits they compute in
// float32, so that the result is rounded once.
template <class F>
Tensor in_float32(const Tensor& x, F&& compute) {
  return cast(compute(cast(x, compute_type(x.dtype()))), x.dtype());
}
// Copies into new memory on `device`.
Tensor copy(const Tensor& x, Device device);
inline Tensor copy(const Tensor& x) { return copy(x, x.device()); }
// Permutes axes: y[i0, i1, ...] is the element of x whose index along axis axes[k] is ik. Each axis
// is named once.
Tensor permute(const Tensor& x, const std::vector<int>& axes);
// Exchanges two axes.
Tensor transpose(const Tensor& x, int first = -2, int second = -1);
// y[.., j, ..] = x[.., index[.., j, ..], ..] along one axis. The indices are integers, shaped like
// x but for that axis; negative ones count from the end. Throws Error if an index is out of range.
// On a GPU and in a captured step such an index gives NaN, for integers 0.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
// labels [..] -> [.., classes]: 1 at the label, 0 elsewhere. Labels are checked like the indices of
// gather(); on a GPU and in a captured step the row of an invalid label is all 0.
Tensor one_hot(const Tensor& labels, int64_t classes, DType dtype = DType::f32);
// Return the sum and the mean of all elements: shape []. Integers are summed as int64.
Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);
// Reduce over some axes, each named once (negative: from the end). They vanish or, with `keep`,
// stay with size 1.
Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keep = false);
Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keep = false);
// sum((x - mean(x))^2) / (n - correction) over n elements; correction 0 gives the biased variance.
// NaN if n <= correction.
Tensor var(const Tensor& x);
Tensor var(const Tensor& x, const std::vector<int>& axes, bool keep = false, double correction = 1);

}  // namespace tessera
