// layer_norm (Ba, Kiros and Hinton 2016): normalizes every row to mean 0 and variance 1 over its
// channels, then scales and shifts it.
//
//   x [.., c]   gamma, beta [c]   y like x
//   y = (x - mean) / sqrt(variance + eps) gamma + beta,   mean and variance over the last axis
//
// Two ops, divided as in batch_norm: the statistics [.., 1] of each row, then a pointwise op, which
// is fused with its users. x and the statistics are kept for the gradient. Any floating-point
// dtype. Throws ShapeError: x a scalar, vectors that are not [c], eps not larger than 0.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

struct LayerNormParams {
  double eps = 1e-5;  // added to the variance, > 0
  bool operator==(const LayerNormParams&) const = default;
};

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const LayerNormParams& params = {});

}  // namespace tessera
