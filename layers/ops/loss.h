// Element-wise losses, the mean over all elements; the result has shape []. Both arguments have one
// shape and one dtype, float32 or float64, else ShapeError.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

// mean((x - target)^2)
Tensor mse(const Tensor& x, const Tensor& target);

// Binary cross-entropy of p = sigmoid(logits) against targets in [0, 1], computed so that no logit
// overflows: mean(max(z, 0) - z t + log(1 + exp(-|z|))), z the logits, t the targets.
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets);

}  // namespace tessera
