// stochastic_depth (Huang et al. 2016): in training (is_training()) sets every sample as a whole to
// zero with probability p and scales the others by 1 / (1 - p); in evaluation y is x. At the end of
// a residual branch it drops the branch.
//
//   x [n, ..]   y like x
//
// Draws the random numbers of dropout of [n, 1]; dropout.h describes them.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor stochastic_depth(const Tensor& x, double p);

}  // namespace tessera
