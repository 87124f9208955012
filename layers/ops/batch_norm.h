// batch_norm (Ioffe and Szegedy 2015): normalizes every channel to mean 0 and variance 1 over all
// rows, then scales and shifts it.
//
//   x [.., c]   gamma, beta, running_mean, running_var [c]   y like x
//   y = (x - mean) / sqrt(variance + eps) gamma + beta
//
// In training (is_training()) mean and variance are those of x over all axes but the last, and the
// running statistics move towards them:
//
//   running = (1 - momentum) running + momentum batch         (with the unbiased variance)
//
// In evaluation mean and variance are the running statistics, and batch_norm is two pointwise ops
// over [c] and one over x. In training it is four ops: the moments of fixed blocks of rows, their
// merge, the pointwise normalization (which is fused with its users) and the update of the
// statistics. The gradient is divided likewise; x, mean and 1 / stddev are kept for it.
//
// y has the dtype of x; the vectors may be float32 where x has 16 bits. Throws ShapeError: x of
// rank 0 or 1, vectors that are not [c], eps or momentum out of range, and in training x with fewer
// than two rows, which have no variance.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

struct BatchNormParams {
  double eps = 1e-5;      // added to the variance, > 0
  double momentum = 0.1;  // weight of the batch in the running statistics, in [0, 1]
  bool operator==(const BatchNormParams&) const = default;
};

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormParams& params = {});

}  // namespace tessera
