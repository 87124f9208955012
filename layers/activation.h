// Activation functions, element by element on tensors of any shape; float32 or float64. All are
// pointwise ops; those whose gradient can be read off the output keep only the output.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor relu(const Tensor& x);   // max(x, 0); the gradient at 0 is 0
Tensor relu6(const Tensor& x);  // min(max(x, 0), 6); the gradient at 0 and at 6 is 0
Tensor gelu(const Tensor& x);   // x Phi(x), Phi the normal distribution function (by erf, exact)
// gelu with Phi(x) replaced by (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
Tensor gelu_tanh(const Tensor& x);
Tensor silu(const Tensor& x);     // x / (1 + exp(-x))
Tensor sigmoid(const Tensor& x);  // 1 / (1 + exp(-x))
Tensor tanh(const Tensor& x);

}  // namespace tessera
