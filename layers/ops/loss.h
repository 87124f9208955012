// Element-wise losses, averaged over all elements; the result has shape []. Throw ShapeError unless
// both arguments have one shape, with at least one element, and the loss is float32, or float64 if
// they are.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

// mean((x - target)^2)
Tensor mse(const Tensor& x, const Tensor& target);

// Binary cross-entropy of p = sigmoid(logits) against targets in [0, 1], computed so that no logit
// overflows: mean(max(z, 0) - z t + log(1 + exp(-|z|))), z = logits, t = targets.
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets);

}  // namespace tessera
