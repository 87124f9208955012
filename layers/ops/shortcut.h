// shortcut: the way around a residual block that has no parameters (He et al. 2015, option A):
// every stride-th pixel, and the channels that are missing as zeros, half of them (rounded down)
// before the others.
//
//   x [n, h, w, c]   y [n, ceil(h / stride), ceil(w / stride), channels]
//
// float32 or float64. Throws ShapeError: x not of rank 4, stride < 1, or fewer channels than x has.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

struct ShortcutParams {
  int64_t stride = 1;    // pixels from one that is kept to the next, along rows and columns
  int64_t channels = 0;  // of y
  bool operator==(const ShortcutParams&) const = default;
};

Tensor shortcut(const Tensor& x, const ShortcutParams& params);

}  // namespace tessera
