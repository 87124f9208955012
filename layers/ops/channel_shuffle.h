// channel_shuffle (Zhang et al. 2017): interleaves the channels of consecutive groups.
//
//   x [.., c]   y[.., i groups + g] = x[.., g c / groups + i]
//
// Any dtype. Throws ShapeError: x a scalar, or groups that do not divide c.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor channel_shuffle(const Tensor& x, int64_t groups);

}  // namespace tessera
