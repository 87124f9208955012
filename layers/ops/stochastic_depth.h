// stochastic_depth (Huang et al. 2016): in training (is_training()) every sample is zero as a whole
// with probability p, and the others are scaled by 1 / (1 - p); in evaluation y is x. Put at the
// end of a residual branch it leaves the branch out.
//
//   x [n, ..]   y like x
//
// The same random numbers as dropout of [n, 1], with all that dropout.h says of them.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor stochastic_depth(const Tensor& x, double p);

}  // namespace tessera
