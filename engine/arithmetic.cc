// The element-wise functions of the eager API, each with its gradient.
#include <fmt/format.h>

#include "tessera/engine/integer_arithmetic.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tensor.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr int kY = PointwiseGrad::kOutput, kDy = PointwiseGrad::kGradient;

// Builds a gradient rule: a program over the tensors in `uses`.
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

Tensor integers(const char* name, ScalarOp op, const Tensor& a, const Tensor& b) {
  switch (op) {
    case ScalarOp::add:
      return integer_arithmetic(IntegerOp::add, a, b);
    case ScalarOp::sub:
      return integer_arithmetic(IntegerOp::subtract, a, b);
    case ScalarOp::mul:
      return integer_arithmetic(IntegerOp::multiply, a, b);
    case ScalarOp::max:
      return integer_arithmetic(IntegerOp::maximum, a, b);
    case ScalarOp::min:
      return integer_arithmetic(IntegerOp::minimum, a, b);
    default:
      throw ShapeError(
          fmt::format("{}: the result of integers ({} and {}) is not an integer; use "
                      "floor_divide(), or cast() them",
                      name, a.spec().text(), b.spec().text()));
  }
}

// Expands two operands if pointwise cannot broadcast them.
Tensor binary(const char* name, ScalarOp op, Tensor a, Tensor b, std::vector<PointwiseGrad> grads) {
  if (!is_float(a.dtype()) && !is_float(b.dtype())) return integers(name, op, a, b);
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
  if (!is_float(x.dtype())) {
    const Tensor other = scalar_like(name, x, c);
    return left ? integers(name, op, other, x) : integers(name, op, x, other);
  }
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

Tensor sin(const Tensor& x) { return pointwise("sin", one(ScalarOp::sin, 1), {x}); }
Tensor cos(const Tensor& x) { return pointwise("cos", one(ScalarOp::cos, 1), {x}); }

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
    return p.push(ScalarOp::select, p.push(ScalarOp::less_equal, 2, 1), p.value(0), 0);
  });
  return binary("maximum", ScalarOp::max, a, b, {first, second});
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return binary("minimum", ScalarOp::min, a, b, {});
}

Tensor clamp(const Tensor& x, double low, double high) {
  if (!is_float(x.dtype()))
    return minimum(maximum(x, scalar_like("clamp", x, low)), scalar_like("clamp", x, high));
  ScalarBuilder b(1);
  const int raised = b.push(ScalarOp::max, 0, b.value(low));
  return pointwise("clamp", b.build(b.push(ScalarOp::min, raised, b.value(high))), {x});
}

Tensor pow(const Tensor& x, double exponent) {
  if (exponent == 0) return full(x.shape(), 1, x.dtype());
  ScalarBuilder b(1);
  return pointwise("pow", b.build(b.push(ScalarOp::pow, 0, b.value(exponent))), {x});
}

Tensor pow(const Tensor& x, const Tensor& exponent) {
  return binary("pow", ScalarOp::pow, x, exponent, {});
}

}  // namespace tessera
