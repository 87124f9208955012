// The element-wise functions of the eager API, broadcasting as numpy does, each with its gradient.
// Floating-point arithmetic is scalar programs (pointwise.h), which fuse; integer arithmetic,
// comparisons and where are ops of their own.
#include <array>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/lines.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

const char* name_of(IntegerOp op) {
  constexpr const char* kNames[] = {"add",       "sub",     "mul",    "floor_divide",
                                    "remainder", "maximum", "minimum"};
  return kNames[static_cast<size_t>(op)];
}

// y = evaluate(op, a, b), where Op is IntegerOp or ComparisonDirection.
template <class T, class Y, class Op>
void run_binary(CpuContext& ctx, Op op, Buffers in, const Buffer& out) {
  const Shape& shape = out.spec.shape;
  for_lines(ctx.pool(), shape, broadcast_strides<2>(in, shape), [&](const Line<2>& l) {
    const T *a = in[0].as<T>() + l.from[0], *b = in[1].as<T>() + l.from[1];
    Y* y = out.as<Y>() + l.first;
    for (int64_t i = 0; i < l.size; ++i) y[i] = evaluate(op, a[i * l.step[0]], b[i * l.step[1]]);
  });
}

// Returns the broadcast shape. Requires inputs of one dtype, else throws ShapeError.
Shape common_shape(std::string_view op_name, SpecView in) {
  Shape shape = in[0].shape;
  for (const TensorSpec& x : in) {
    if (x.dtype != in[0].dtype)
      throw ShapeError(
          fmt::format("{}: both inputs must have the same dtype, but are {} and {}; use cast()",
                      op_name, in[0].text(), x.text()));
    shape = broadcast(shape, x.shape, op_name);
  }
  return shape;
}

class IntegerArithmetic final : public OpBase<IntegerArithmetic, IntegerOp> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return name_of(params); }
  Specs infer(SpecView in) const override { return {{in[0].dtype, common_shape(name(), in), {}}}; }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    visit_integer(in[0].spec.dtype, [&]<class T>(T) { run_binary<T, T>(ctx, params, in, out[0]); });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) integer_arithmetic_cuda(ctx, params, in, out[0]);
  }
};

class Comparison final : public OpBase<Comparison, ComparisonDirection> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override {
    constexpr const char* kNames[] = {"equal", "not_equal", "less", "less_equal"};
    return kNames[static_cast<size_t>(params)];
  }
  Specs infer(SpecView in) const override { return {{DType::u8, common_shape(name(), in), {}}}; }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    visit_dtype(in[0].spec.dtype,
                [&]<class T>(T) { run_binary<T, uint8_t>(ctx, params, in, out[0]); });
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) comparison_cuda(ctx, params, in, out[0]);
  }
};

// The derivative of a comparison is 0 wherever it exists, so no gradient flows.
Tensor compare(ComparisonDirection relation, const Tensor& a, const Tensor& b) {
  return apply1(std::make_shared<Comparison>(relation), {detach(a), detach(b)});
}

class Where final : public OpBase<Where> {
 public:
  std::string_view name() const override { return "where"; }
  Specs infer(SpecView in) const override {
    if (in[0].dtype != DType::u8)
      throw ShapeError(
          fmt::format("where: the condition must be uint8 (the result of a comparison), but is {}",
                      in[0].text()));
    return {{in[1].dtype, broadcast(in[0].shape, common_shape(name(), in.subspan(1)), name()), {}}};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const Shape& shape = out[0].spec.shape;
    visit_dtype(out[0].spec.dtype, [&]<class T>(T) {
      for_lines(ctx.pool(), shape, broadcast_strides<3>(in, shape), [&](const Line<3>& l) {
        const uint8_t* condition = in[0].as<uint8_t>() + l.from[0];
        const T *a = in[1].as<T>() + l.from[1], *b = in[2].as<T>() + l.from[2];
        T* y = out[0].as<T>() + l.first;
        for (int64_t i = 0; i < l.size; ++i)
          y[i] = condition[i * l.step[0]] != 0 ? a[i * l.step[1]] : b[i * l.step[2]];
      });
    });
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) where_cuda(ctx, in, out[0]);
  }
  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b001}; }
  Tensors grad(const GradArgs& args) const override {
    const Tensor &condition = args.inputs[0], &dy = args.grad_outputs[0];
    const Tensor zero = full({}, 0, dy.dtype());
    Tensors grads(3);
    if (args.needs(1))
      grads[1] = sum_to(tessera::where(condition, dy, zero), args.input_specs[1].shape);
    if (args.needs(2))
      grads[2] = sum_to(tessera::where(condition, zero, dy), args.input_specs[2].shape);
    return grads;
  }
};

// Requires one integer dtype; broadcasts as numpy does.
Tensor integer_arithmetic(IntegerOp op, const Tensor& a, const Tensor& b) {
  return apply1(std::make_shared<IntegerArithmetic>(op), {a, b});
}

// Returns a scalar of the dtype of x. Throws ShapeError if the dtype cannot represent `value`.
Tensor scalar_like(const char* op_name, const Tensor& x, double value) {
  bool fits = true;
  if (!is_float(x.dtype()))
    visit_integer(x.dtype(), [&](auto zero) {
      using Limits = std::numeric_limits<decltype(zero)>;
      fits = value >= static_cast<double>(Limits::min()) &&
             value <= static_cast<double>(Limits::max()) && value == std::floor(value) &&
             value < 0x1p63;
    });
  if (!fits)
    throw ShapeError(
        fmt::format("{}: {} cannot be represented as {}, the dtype of x ({}); use cast()", op_name,
                    value, name_of(x.dtype()), x.spec().text()));
  return full({}, value, x.dtype());
}

Tensor divided(IntegerOp op, const Tensor& a, const Tensor& b) {
  for (const Tensor* x : {&a, &b})
    if (is_float(x->dtype()))
      throw ShapeError(
          fmt::format("{}: both inputs must be integers, but one is {}; use / or cast()",
                      name_of(op), x->spec().text()));
  return integer_arithmetic(op, a, b);
}

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
  constexpr std::pair<ScalarOp, IntegerOp> kOps[] = {{ScalarOp::add, IntegerOp::add},
                                                     {ScalarOp::sub, IntegerOp::subtract},
                                                     {ScalarOp::mul, IntegerOp::multiply},
                                                     {ScalarOp::max, IntegerOp::maximum},
                                                     {ScalarOp::min, IntegerOp::minimum}};
  for (const auto& [of_scalars, of_integers] : kOps)
    if (of_scalars == op) return integer_arithmetic(of_integers, a, b);
  throw ShapeError(
      fmt::format("{}: the result of integers ({} and {}) is not an integer; use "
                  "floor_divide(), or cast() them",
                  name, a.spec().text(), b.spec().text()));
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

Tensor floor_divide(const Tensor& a, const Tensor& b) {
  return divided(IntegerOp::floor_divide, a, b);
}
Tensor floor_divide(const Tensor& a, double b) {
  return floor_divide(a, scalar_like("floor_divide", a, b));
}
Tensor remainder(const Tensor& a, const Tensor& b) { return divided(IntegerOp::remainder, a, b); }
Tensor remainder(const Tensor& a, double b) { return remainder(a, scalar_like("remainder", a, b)); }

Tensor equal(const Tensor& a, const Tensor& b) { return compare(ComparisonDirection::equal, a, b); }
Tensor not_equal(const Tensor& a, const Tensor& b) {
  return compare(ComparisonDirection::not_equal, a, b);
}
Tensor less(const Tensor& a, const Tensor& b) { return compare(ComparisonDirection::less, a, b); }
Tensor less_equal(const Tensor& a, const Tensor& b) {
  return compare(ComparisonDirection::less_equal, a, b);
}
Tensor greater(const Tensor& a, const Tensor& b) { return less(b, a); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return less_equal(b, a); }
Tensor equal(const Tensor& a, double b) { return equal(a, scalar_like("equal", a, b)); }
Tensor not_equal(const Tensor& a, double b) { return not_equal(a, scalar_like("not_equal", a, b)); }
Tensor less(const Tensor& a, double b) { return less(a, scalar_like("less", a, b)); }
Tensor less_equal(const Tensor& a, double b) {
  return less_equal(a, scalar_like("less_equal", a, b));
}
Tensor greater(const Tensor& a, double b) { return greater(a, scalar_like("greater", a, b)); }
Tensor greater_equal(const Tensor& a, double b) {
  return greater_equal(a, scalar_like("greater_equal", a, b));
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return apply1(std::make_shared<Where>(), {condition, a, b});
}

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
