// slice and pad: a box of a tensor, along every axis with a start and a step, and zeros where the
// box reaches outside.
//
//   y[i0, i1, ...] = x[begin0 + i0 step0, begin1 + i1 step1, ...],   0 where that lies outside x
//
// The gradient puts dy back and leaves the rest zero. Any dtype; gradients for floating point.
#pragma once

#include <array>

#include "tessera/engine/op.h"

namespace tessera {

struct SliceParams {
  std::array<int64_t, kMaxRank> begin{};  // for each axis; negative: zeros come first
  std::array<int64_t, kMaxRank> step{};   // for each axis, >= 1
  Shape size;                             // of the result; as many axes as x
  bool operator==(const SliceParams&) const = default;
};

// Throws ShapeError: size has another rank than x, or a step is smaller than 1.
Tensor slice(const Tensor& x, const SliceParams& params);

// Every step-th element of [begin, end) of one axis (-1: the last); the other axes stay whole.
// Negative: from the end of the axis. Throws ShapeError: no such axis, not 0 <= begin <= end <= its
// size, or step < 1.
Tensor slice(const Tensor& x, int axis, int64_t begin, int64_t end, int64_t step = 1);

// `before` zeros before and `after` zeros after the elements of one axis (-1: the last). Throws
// ShapeError: no such axis, or a negative count.
Tensor pad(const Tensor& x, int axis, int64_t before, int64_t after);

}  // namespace tessera
