// shortcut: the parameter-free shortcut of a residual block (He et al. 2015, option A). Takes every
// stride-th pixel and fills missing channels with zeros, half of them (rounded down) before those
// of x.
//
//   x [n, h, w, c]   y [n, ceil(h / stride), ceil(w / stride), channels]
//
// Any floating-point dtype. Throws ShapeError: x not of rank 4, stride < 1, or fewer channels than
// x has.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

struct ShortcutParams {
  int64_t stride = 1;    // distance of the kept pixels, along rows and columns
  int64_t channels = 0;  // channels of y
  bool operator==(const ShortcutParams&) const = default;
};

Tensor shortcut(const Tensor& x, const ShortcutParams& params);

}  // namespace tessera
