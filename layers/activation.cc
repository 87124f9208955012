#include "tessera/layers/activation.h"

#include <cmath>
#include <numbers>

#include "tessera/engine/pointwise.h"

namespace tessera {

namespace {

constexpr int kOutput = PointwiseGrad::kOutput, kGradient = PointwiseGrad::kGradient;

// Phi(x) = (1 + erf(x / sqrt(2))) / 2
int normal_distribution(ScalarBuilder& b, int x) {
  const int e = b.push(ScalarOp::erf, b.mul(x, b.value(1 / std::numbers::sqrt2)));
  return b.mul(b.add(e, b.value(1)), b.value(0.5));
}

// phi(x) = exp(-x^2 / 2) / sqrt(2 pi)
int normal_density(ScalarBuilder& b, int x) {
  const int e = b.push(ScalarOp::exp, b.mul(b.mul(x, x), b.value(-0.5)));
  return b.mul(e, b.value(std::numbers::inv_sqrtpi / std::numbers::sqrt2));
}

}  // namespace

Tensor relu(const Tensor& x) {
  ScalarBuilder y(1);
  ScalarBuilder dx(2);  // y, dy
  const int positive = dx.push(ScalarOp::greater, dx.in(0), dx.value(0));
  return pointwise("relu", y.build(y.push(ScalarOp::max, y.in(0), y.value(0))), {x},
                   {{{kOutput, kGradient},
                     dx.build(dx.push(ScalarOp::select, positive, dx.in(1), dx.value(0)))}});
}

Tensor relu6(const Tensor& x) {
  ScalarBuilder y(1);
  const int positive = y.push(ScalarOp::max, y.in(0), y.value(0));
  ScalarBuilder dx(2);  // y, dy
  const int inside = dx.mul(dx.push(ScalarOp::greater, dx.in(0), dx.value(0)),
                            dx.push(ScalarOp::greater, dx.value(6), dx.in(0)));
  return pointwise(
      "relu6", y.build(y.push(ScalarOp::min, positive, y.value(6))), {x},
      {{{kOutput, kGradient}, dx.build(dx.push(ScalarOp::select, inside, dx.in(1), dx.value(0)))}});
}

Tensor gelu(const Tensor& x) {
  ScalarBuilder y(1);
  ScalarBuilder dx(2);  // x, dy
  const int slope =
      dx.add(normal_distribution(dx, dx.in(0)), dx.mul(dx.in(0), normal_density(dx, dx.in(0))));
  return pointwise("gelu", y.build(y.mul(y.in(0), normal_distribution(y, y.in(0)))), {x},
                   {{{0, kGradient}, dx.build(dx.mul(dx.in(1), slope))}});
}

Tensor gelu_tanh(const Tensor& x) {
  // y = x (1 + tanh(u)) / 2 with u = a (x + b x^3)
  const double a = std::sqrt(2 / std::numbers::pi), b = 0.044715;
  ScalarBuilder y(1);
  ScalarBuilder dx(2);                                      // x, dy
  const auto inner = [&](ScalarBuilder& p, double cubic) {  // 1 + cubic x^2
    return p.add(p.mul(p.mul(p.in(0), p.in(0)), p.value(cubic)), p.value(1));
  };
  const auto half = [&](ScalarBuilder& p, int t) {
    return p.mul(p.add(t, p.value(1)), p.value(0.5));
  };
  const auto tanh_u = [&](ScalarBuilder& p) {
    return p.push(ScalarOp::tanh, p.mul(p.mul(p.in(0), p.value(a)), inner(p, b)));
  };
  const int t = tanh_u(dx);
  const int du = dx.mul(dx.mul(dx.in(0), dx.value(0.5 * a)), inner(dx, 3 * b));
  const int slope = dx.add(half(dx, t), dx.mul(dx.sub(dx.value(1), dx.mul(t, t)), du));
  return pointwise("gelu_tanh", y.build(y.mul(y.in(0), half(y, tanh_u(y)))), {x},
                   {{{0, kGradient}, dx.build(dx.mul(dx.in(1), slope))}});
}

Tensor silu(const Tensor& x) {
  ScalarBuilder y(1);
  ScalarBuilder dx(2);  // x, dy
  const int s = dx.push(ScalarOp::sigmoid, dx.in(0));
  const int rest = dx.mul(dx.in(0), dx.sub(dx.value(1), s));
  const int slope = dx.mul(s, dx.add(rest, dx.value(1)));  // s (1 + x (1 - s))
  return pointwise("silu", y.build(y.mul(y.in(0), y.push(ScalarOp::sigmoid, y.in(0)))), {x},
                   {{{0, kGradient}, dx.build(dx.mul(dx.in(1), slope))}});
}

Tensor sigmoid(const Tensor& x) {
  ScalarBuilder y(1);
  ScalarBuilder dx(2);  // y, dy
  const int slope = dx.mul(dx.in(0), dx.sub(dx.value(1), dx.in(0)));
  return pointwise("sigmoid", y.build(y.push(ScalarOp::sigmoid, y.in(0))), {x},
                   {{{kOutput, kGradient}, dx.build(dx.mul(dx.in(1), slope))}});
}

Tensor tanh(const Tensor& x) {
  ScalarBuilder y(1);
  ScalarBuilder dx(2);  // y, dy
  const int slope = dx.sub(dx.value(1), dx.mul(dx.in(0), dx.in(0)));
  return pointwise("tanh", y.build(y.push(ScalarOp::tanh, y.in(0))), {x},
                   {{{kOutput, kGradient}, dx.build(dx.mul(dx.in(1), slope))}});
}

}  // namespace tessera
