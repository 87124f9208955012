// slice, pad and shortcut: a box of a tensor with a start and a step along every axis, and zeros
// outside.
//
//   y[i0, i1, ...] = x[begin0 + i0 step0, begin1 + i1 step1, ...],   0 outside of x
//
// The gradient is dy at the elements read, 0 elsewhere. Any dtype; gradients for floating point.
#pragma once

#include <array>

#include "tessera/engine/op.h"

namespace tessera {

struct SliceParams {
  std::array<int64_t, kMaxRank> begin{};  // for each axis; negative: zeros come first
  std::array<int64_t, kMaxRank> step{};   // for each axis, >= 1
  Shape size;                             // shape of the result; as many axes as x
  bool operator==(const SliceParams&) const = default;
};

// Throws ShapeError if size has another rank than x, or a step is smaller than 1.
Tensor slice(const Tensor& x, const SliceParams& params);

// Returns every step-th element of [begin, end) of one axis (-1: the last); the other axes stay
// whole. Negative begin and end count from the end of the axis. Throws ShapeError: no such axis,
// not 0 <= begin <= end <= its size, or step < 1.
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end, int64_t step = 1);

// Adds `before` zeros before and `after` zeros after the elements of one axis (-1: the last).
// Throws ShapeError: no such axis, or a negative count.
Tensor pad(const Tensor& x, int axis, int64_t before, int64_t after);

struct ShortcutParams {
  int64_t stride = 1;    // distance of the kept pixels, along rows and columns
  int64_t channels = 0;  // channels of y
};

// Returns the parameter-free shortcut of a residual block (He et al. 2015, option A): takes every
// stride-th pixel and fills missing channels with zeros, half of them (rounded down) before those
// of x. x [n, h, w, c], floating point, y [n, ceil(h / stride), ceil(w / stride), channels]. Throws
// ShapeError: x not of rank 4, stride < 1, or fewer channels than x has.
Tensor shortcut(const Tensor& x, const ShortcutParams& params);

}  // namespace tessera
