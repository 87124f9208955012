#include "tessera/layers/activation.h"

#include <cmath>
#include <numbers>

#include "tessera/engine/pointwise.h"
#include "tessera/layers/shared/checks.h"

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

// min(max(x, 0), 6)
int relu6_of(ScalarBuilder& b, int x) {
  const int positive = b.push(ScalarOp::max, x, b.value(0));
  return b.push(ScalarOp::min, positive, b.value(6));
}

// tanh(log(1 + e^x)) = w / (w + 2) with w = e^x (e^x + 2). From 20 on it is 1, to the last bit.
int tanh_of_softplus(ScalarBuilder& b, int x) {
  const int e = b.push(ScalarOp::exp, b.push(ScalarOp::min, x, b.value(20)));
  const int w = b.mul(e, b.add(e, b.value(2)));
  return b.div(w, b.add(w, b.value(2)));
}

}  // namespace

Tensor relu(const Tensor& x) {
  ScalarBuilder y(1);
  ScalarBuilder dx(2);  // y, dy; dy passes unless y is 0, so a NaN of either stays
  const int slope = dx.push(ScalarOp::select, dx.in(0), dx.in(1), dx.value(0));
  return pointwise("relu", y.build(y.push(ScalarOp::max, y.in(0), y.value(0))), {x},
                   {{{kOutput, kGradient}, dx.build(slope)}});
}

Tensor relu6(const Tensor& x) {
  ScalarBuilder y(1);
  ScalarBuilder dx(2);  // y, dy; dy passes unless y is 0 or 6
  const int zero = dx.value(0), below_6 = dx.sub(dx.value(6), dx.in(0));
  const int slope = dx.push(ScalarOp::select, dx.in(0), dx.in(1), zero);
  return pointwise(
      "relu6", y.build(relu6_of(y, y.in(0))), {x},
      {{{kOutput, kGradient}, dx.build(dx.push(ScalarOp::select, below_6, slope, zero))}});
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

Tensor hard_sigmoid(const Tensor& x) {
  ScalarBuilder y(1);
  ScalarBuilder dx(2);  // y, dy
  const int inside = dx.mul(dx.push(ScalarOp::greater, dx.in(0), dx.value(0)),
                            dx.push(ScalarOp::greater, dx.value(1), dx.in(0)));
  const int slope = dx.mul(dx.in(1), dx.value(1.0 / 6));
  return pointwise(
      "hard_sigmoid", y.build(y.mul(relu6_of(y, y.add(y.in(0), y.value(3))), y.value(1.0 / 6))),
      {x},
      {{{kOutput, kGradient}, dx.build(dx.push(ScalarOp::select, inside, slope, dx.value(0)))}});
}

Tensor hard_swish(const Tensor& x) {
  ScalarBuilder y(1);
  const int gate = y.mul(relu6_of(y, y.add(y.in(0), y.value(3))), y.value(1.0 / 6));
  ScalarBuilder dx(2);  // x, dy
  const int inside = dx.push(ScalarOp::greater, dx.value(3), dx.push(ScalarOp::abs, dx.in(0)));
  const int middle = dx.add(dx.mul(dx.in(0), dx.value(1.0 / 3)), dx.value(0.5));
  const int outside = dx.push(ScalarOp::greater, dx.in(0), dx.value(0));
  const int slope = dx.push(ScalarOp::select, inside, middle, outside);
  return pointwise("hard_swish", y.build(y.mul(y.in(0), gate)), {x},
                   {{{0, kGradient}, dx.build(dx.mul(dx.in(1), slope))}});
}

Tensor leaky_relu(const Tensor& x, double slope) {
  ScalarBuilder y(1);
  ScalarBuilder dx(2);  // x, or y where it has the sign of x, and dy
  const auto bend = [&](ScalarBuilder& b, int value) {
    const int positive = b.push(ScalarOp::greater, b.in(0), b.value(0));
    return b.build(b.push(ScalarOp::select, positive, value, b.mul(value, b.value(slope))));
  };
  return pointwise("leaky_relu", bend(y, y.in(0)), {x},
                   {{{slope >= 0 ? kOutput : 0, kGradient}, bend(dx, dx.in(1))}});
}

Tensor prelu(const Tensor& x, const Tensor& slope) {
  const TensorSpec in[] = {x.spec(), slope.spec()};
  InputCheck check("prelu", in, {"x", "slope"});
  check.floats();
  check.rank(1, 1);
  if (x.shape().rank() == 0 || (slope.elements() != 1 && slope.elements() != x.shape().back()))
    check.fail("slope must be one number, or one for each channel of x");
  ScalarBuilder y(2), dx(3), dslope(2);  // x, slope; x, slope, dy; x, dy
  const auto positive = [](ScalarBuilder& b) {
    return b.push(ScalarOp::greater, b.in(0), b.value(0));
  };
  const auto bend = [&](ScalarBuilder& b, int value) {
    return b.build(b.push(ScalarOp::select, positive(b), value, b.mul(value, b.in(1))));
  };
  const int below = dslope.mul(dslope.in(0), dslope.in(1));
  return pointwise(
      "prelu", bend(y, y.in(0)), {x, slope},
      {{{0, 1, kGradient}, bend(dx, dx.in(2))},
       {{0, kGradient},
        dslope.build(dslope.push(ScalarOp::select, positive(dslope), dslope.value(0), below))}});
}

Tensor elu(const Tensor& x, double alpha) {
  ScalarBuilder y(1);
  const int e = y.push(ScalarOp::exp, y.push(ScalarOp::min, y.in(0), y.value(0)));
  const int below = y.mul(y.sub(e, y.value(1)), y.value(alpha));
  const int positive = y.push(ScalarOp::greater, y.in(0), y.value(0));
  ScalarBuilder dx(2);  // x, dy
  const int decay = dx.push(ScalarOp::exp, dx.push(ScalarOp::min, dx.in(0), dx.value(0)));
  const int slope = dx.push(ScalarOp::select, dx.push(ScalarOp::greater, dx.in(0), dx.value(0)),
                            dx.value(1), dx.mul(decay, dx.value(alpha)));
  return pointwise("elu", y.build(y.push(ScalarOp::select, positive, y.in(0), below)), {x},
                   {{{0, kGradient}, dx.build(dx.mul(dx.in(1), slope))}});
}

Tensor mish(const Tensor& x) {
  ScalarBuilder y(1);
  ScalarBuilder dx(2);  // x, dy
  const int t = tanh_of_softplus(dx, dx.in(0));
  const int s = dx.push(ScalarOp::sigmoid, dx.in(0));
  const int rest = dx.mul(dx.mul(dx.in(0), s), dx.sub(dx.value(1), dx.mul(t, t)));
  return pointwise("mish", y.build(y.mul(y.in(0), tanh_of_softplus(y, y.in(0)))), {x},
                   {{{0, kGradient}, dx.build(dx.mul(dx.in(1), dx.add(t, rest)))}});
}

}  // namespace tessera
