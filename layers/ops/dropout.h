// dropout (Srivastava et al. 2014): in training (is_training()) every element is zero with
// probability p, and the others are scaled by 1 / (1 - p); in evaluation y is x.
//
//   x [n, ..]   y like x
//
// Which elements stay is a function of (key of the call, step, global index of the sample, element
// in the sample) alone, where the RandomScope around the call gives the key and the position {step,
// first sample of x}: no mask is kept for the gradient, and it does not matter how a batch is
// split. float32 or float64. Throws ShapeError: p not in [0, 1), x a scalar; Error: no RandomScope.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor dropout(const Tensor& x, double p);

}  // namespace tessera
