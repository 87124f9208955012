// dropout (Srivastava et al. 2014): in training (is_training()) sets every element to zero with
// probability p and scales the others by 1 / (1 - p); in evaluation y is x.
//
//   x [n, ..]   y like x
//
// Whether an element is kept depends only on (key of the call, step, global index of the sample,
// element in the sample). The RandomScope around the call provides the key and the position {step,
// first sample of x}. So no mask is kept for the gradient, and a batch may be split in any way.
// Any floating-point dtype. Throws ShapeError: p not in [0, 1), x a scalar; Error: no RandomScope.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor dropout(const Tensor& x, double p);

// stochastic_depth (Huang et al. 2016) drops a sample as a whole: in training every sample becomes
// zero with probability p, and the others are scaled by 1 / (1 - p). At the end of a residual
// branch it drops the branch. Draws the random numbers of dropout of [n, 1].
Tensor stochastic_depth(const Tensor& x, double p);

}  // namespace tessera
