// softmax and log_softmax over the last axis.
//
//   x [.., c]   y like x
//   softmax:     y = exp(x) / sum(exp(x))
//   log_softmax: y = x - log(sum(exp(x)))
//
// The maximum is subtracted first, so no finite x overflows. y is kept for the
// gradient. Throws ShapeError if x is a scalar.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor softmax(const Tensor& x);
Tensor log_softmax(const Tensor& x);

}  // namespace tessera
