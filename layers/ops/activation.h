// Activation functions: pointwise ops on floating-point tensors of any shape. An op whose
// gradient can be computed from its output keeps only the output.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor relu(const Tensor& x);   // max(x, 0); the gradient at 0 is 0
Tensor relu6(const Tensor& x);  // min(max(x, 0), 6); the gradient at 0 and at 6 is 0
Tensor gelu(const Tensor& x);   // x Phi(x), Phi the standard normal CDF (by erf, exact)
// gelu with Phi(x) replaced by (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
Tensor gelu_tanh(const Tensor& x);
Tensor silu(const Tensor& x);     // x / (1 + exp(-x))
Tensor sigmoid(const Tensor& x);  // 1 / (1 + exp(-x))
Tensor tanh(const Tensor& x);
Tensor hard_sigmoid(const Tensor& x);  // relu6(x + 3) / 6; the gradient at -3 and at 3 is 0
Tensor hard_swish(const Tensor& x);    // x hard_sigmoid(x); the gradient at -3 is 0, at 3 is 1
// x if x > 0, else slope x; the gradient at 0 is slope.
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
// leaky_relu with trained slopes: one for each channel [c], or one for all [1].
Tensor prelu(const Tensor& x, const Tensor& slope);
Tensor elu(const Tensor& x, double alpha = 1);  // x if x > 0, else alpha (exp(x) - 1)
Tensor mish(const Tensor& x);                   // x tanh(log(1 + exp(x)))

}  // namespace tessera
