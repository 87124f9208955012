#include "tessera/layers/ops/activation.h"

#include <cmath>
#include <numbers>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/scalar_program.h"
#include "tessera/layers/shared/checks.h"

namespace tessera {

namespace {

using stages::Scalar;

constexpr int kInput = 0, kOutput = PointwiseGrad::kOutput, kGradient = PointwiseGrad::kGradient;

// Returns stage(x). `slope` is the gradient as a function of `of` (the input or output) and dy.
template <class Stage, class Slope>
Tensor activation(const char* name, const Tensor& x, const Stage& stage, int of,
                  const Slope& slope) {
  return pointwise(name, stages::program<1>(stage), {x},
                   {{{of, kGradient}, stages::program<2>(slope)}});
}

}  // namespace

Tensor relu(const Tensor& x) {
  return activation("relu", x, stages::relu, kOutput, stages::relu_grad);
}

Tensor relu6(const Tensor& x) {
  return activation("relu6", x, stages::relu6, kOutput, stages::relu6_grad);
}

Tensor gelu(const Tensor& x) {
  return activation("gelu", x, stages::gelu, kInput, stages::gelu_grad);
}

Tensor gelu_tanh(const Tensor& x) {
  // y = x (1 + tanh(u)) / 2 with u = a (x + b x^3)
  const double a = std::sqrt(2 / std::numbers::pi), half_a = 0.5 * a, b = 0.044715, b3 = 3 * b;
  const auto inner = [](Scalar x, double cubic) { return x * x * cubic + 1; };
  const auto half = [](Scalar t) { return (t + 1) * 0.5; };
  const auto tanh_u = [=](Scalar x) { return tanh(x * a * inner(x, b)); };
  return activation(
      "gelu_tanh", x, [=](Scalar x) { return x * half(tanh_u(x)); }, kInput,
      [=](Scalar x, Scalar dy) {
        const Scalar t = tanh_u(x), du = x * half_a * inner(x, b3);
        return dy * (half(t) + (1 - t * t) * du);
      });
}

Tensor silu(const Tensor& x) {
  return activation("silu", x, stages::silu, kInput, stages::silu_grad);
}

Tensor sigmoid(const Tensor& x) {
  return activation("sigmoid", x, stages::sigmoid, kOutput, stages::sigmoid_grad);
}

Tensor tanh(const Tensor& x) {
  return activation(
      "tanh", x, [](Scalar x) { return tanh(x); }, kOutput,
      [](Scalar y, Scalar dy) { return dy * (1 - y * y); });
}

Tensor hard_sigmoid(const Tensor& x) {
  return activation("hard_sigmoid", x, stages::hard_sigmoid, kOutput, stages::hard_sigmoid_grad);
}

Tensor hard_swish(const Tensor& x) {
  return activation("hard_swish", x, stages::hard_swish, kInput, stages::hard_swish_grad);
}

Tensor leaky_relu(const Tensor& x, double slope) {
  return activation(
      "leaky_relu", x, [=](Scalar x) { return stages::bend(x, x, 0, slope); },
      slope >= 0 ? kOutput : kInput,  // y has the sign of x if slope >= 0
      [=](Scalar x, Scalar dy) { return stages::bend(x, dy, 0, slope); });
}

Tensor prelu(const Tensor& x, const Tensor& slope) {
  const TensorSpec in[] = {x.spec(), slope.spec()};
  InputCheck check("prelu", in, {"x", "slope"});
  check.floats();
  check.rank(1, 1);
  if (x.shape().rank() == 0 || (slope.elements() != 1 && slope.elements() != x.shape().back()))
    check.fail("slope must be one number, or one for each channel of x");
  const auto y = [](Scalar x, Scalar slope) { return stages::bend(x, x, 0, slope); };
  const auto dx = [](Scalar x, Scalar slope, Scalar dy) { return stages::bend(x, dy, 0, slope); };
  const auto dslope = [](Scalar x, Scalar dy) { return select(x > 0, 0, x * dy); };
  return pointwise(
      "prelu", stages::program<2>(y), {x, slope},
      {{{0, 1, kGradient}, stages::program<3>(dx)}, {{0, kGradient}, stages::program<2>(dslope)}},
      x.dtype());
}

Tensor elu(const Tensor& x, double alpha) {
  return activation(
      "elu", x, [=](Scalar x) { return select(x > 0, x, (stages::exp_below_0(x) - 1) * alpha); },
      kInput,
      [=](Scalar x, Scalar dy) { return dy * select(x > 0, 1, stages::exp_below_0(x) * alpha); });
}

Tensor mish(const Tensor& x) {
  return activation("mish", x, stages::mish, kInput, stages::mish_grad);
}

}  // namespace tessera
