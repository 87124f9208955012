// The element-wise functions of the eager API, each with its gradient.
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tensor.h"

namespace tessera {
namespace {

constexpr int kY = PointwiseGrad::kOutput, kDy = PointwiseGrad::kGradient;

// A gradient rule: program over the tensors `uses` names, written with a builder.
template <class F>
PointwiseGrad rule(std::vector<int> uses, F&& body) {
  ScalarBuilder b(static_cast<int>(uses.size()));
  ScalarProgram program = b.build(body(b));
  return {std::move(uses), std::move(program)};
}

const PointwiseGrad& pass() {
  static const PointwiseGrad grad{{kDy}, {1, {}}};
  return grad;
}

const PointwiseGrad& negate() {
  static const PointwiseGrad grad =
      rule({kDy}, [](ScalarBuilder& b) { return b.push(ScalarOp::neg, 0); });
  return grad;
}

ScalarProgram one(ScalarOp op, int inputs) {
  ScalarBuilder b(inputs);
  return b.build(b.push(op, 0, inputs - 1));
}

// Brings two operands into a form that pointwise can read.
Tensor binary(const char* name, ScalarOp op, Tensor a, Tensor b, std::vector<PointwiseGrad> grads) {
  if (a.shape() != b.shape()) {
    Shape out = broadcast(a.shape(), b.shape(), name);
    Broadcast unused;
    if (!broadcast_of(a.shape(), out, &unused)) a = expand(a, out);
    if (!broadcast_of(b.shape(), out, &unused)) b = expand(b, out);
  }
  return pointwise(name, one(op, 2), {a, b}, std::move(grads));
}

// f(x, c) with a constant; `left` puts the constant first.
Tensor with_constant(const char* name, ScalarOp op, const Tensor& x, double c, bool left,
                     PointwiseGrad grad) {
  ScalarBuilder b(1);
  int k = b.value(c);
  return pointwise(name, b.build(left ? b.push(op, k, 0) : b.push(op, 0, k)), {x},
                   {std::move(grad)});
}

}  // namespace

Tensor operator+(const Tensor& a, const Tensor& b) {
  return binary("add", ScalarOp::add, a, b, {pass(), pass()});
}

Tensor operator-(const Tensor& a, const Tensor& b) {
  return binary("sub", ScalarOp::sub, a, b, {pass(), negate()});
}

Tensor operator*(const Tensor& a, const Tensor& b) {
  auto times = [](ScalarBuilder& p) { return p.mul(0, 1); };
  return binary("mul", ScalarOp::mul, a, b, {rule({kDy, 1}, times), rule({kDy, 0}, times)});
}

Tensor operator/(const Tensor& a, const Tensor& b) {
  auto over = rule({kDy, 1}, [](ScalarBuilder& p) { return p.div(0, 1); });
  auto below = rule({kDy, kY, 1},
                    [](ScalarBuilder& p) { return p.push(ScalarOp::neg, p.div(p.mul(0, 1), 2)); });
  return binary("div", ScalarOp::div, a, b, {over, below});
}

Tensor operator+(const Tensor& a, double b) {
  return with_constant("add_scalar", ScalarOp::add, a, b, false, pass());
}

Tensor operator-(const Tensor& a, double b) {
  return with_constant("sub_scalar", ScalarOp::sub, a, b, false, pass());
}

Tensor operator*(const Tensor& a, double b) {
  return with_constant("scale", ScalarOp::mul, a, b, false,
                       rule({kDy}, [b](ScalarBuilder& p) { return p.mul(0, p.value(b)); }));
}

Tensor operator/(const Tensor& a, double b) {
  return with_constant("div_scalar", ScalarOp::div, a, b, false,
                       rule({kDy}, [b](ScalarBuilder& p) { return p.div(0, p.value(b)); }));
}

Tensor operator-(double a, const Tensor& b) {
  return with_constant("scalar_sub", ScalarOp::sub, b, a, true, negate());
}

Tensor operator/(double a, const Tensor& b) {
  // d (a / x) = -a / x^2 = -y / x
  return with_constant("scalar_div", ScalarOp::div, b, a, true,
                       rule({kDy, kY, 0}, [](ScalarBuilder& p) {
                         return p.push(ScalarOp::neg, p.div(p.mul(0, 1), 2));
                       }));
}

Tensor exp(const Tensor& x) {
  return pointwise("exp", one(ScalarOp::exp, 1), {x},
                   {rule({kDy, kY}, [](ScalarBuilder& b) { return b.mul(0, 1); })});
}

Tensor log(const Tensor& x) {
  return pointwise("log", one(ScalarOp::log, 1), {x},
                   {rule({kDy, 0}, [](ScalarBuilder& b) { return b.div(0, 1); })});
}

Tensor sqrt(const Tensor& x) {
  return pointwise(
      "sqrt", one(ScalarOp::sqrt, 1), {x},
      {rule({kDy, kY}, [](ScalarBuilder& b) { return b.div(b.mul(0, b.value(0.5)), 1); })});
}

Tensor abs(const Tensor& x) {
  return pointwise("abs", one(ScalarOp::abs, 1), {x}, {rule({kDy, 0}, [](ScalarBuilder& b) {
                     int zero = b.value(0);
                     int negative = b.push(ScalarOp::greater, zero, 1);
                     int sign = b.sub(b.push(ScalarOp::greater, 1, zero), negative);
                     return b.mul(0, sign);
                   })});
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  auto first = rule({kDy, 0, 1}, [](ScalarBuilder& p) {
    return p.push(ScalarOp::select, p.push(ScalarOp::greater, 2, 1), p.value(0), 0);
  });
  auto second = rule({kDy, 0, 1}, [](ScalarBuilder& p) {
    return p.push(ScalarOp::select, p.push(ScalarOp::greater, 2, 1), 0, p.value(0));
  });
  return binary("maximum", ScalarOp::max, a, b, {first, second});
}

}  // namespace tessera
