// Element-wise ops of any dtype, broadcasting as numpy does: integer arithmetic, comparisons,
// where. Floating-point arithmetic is in pointwise.cc, which fuses.
#include <array>
#include <limits>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/integer_arithmetic.h"
#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/lines.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Calls fn(line) for all lines of the output; inputs are broadcast to it.
template <size_t N, class F>
void for_broadcast_lines(ThreadPool& pool, const Shape& out, Buffers in, F&& fn) {
  std::array<Strides, N> strides;
  for (size_t k = 0; k < N; ++k) strides[k] = broadcast_strides(in[k].spec.shape, out);
  for_lines(pool, out, strides, fn);
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

struct IntegerParams {
  IntegerOp op;
  bool operator==(const IntegerParams&) const = default;
};

class IntegerArithmetic final : public OpBase<IntegerArithmetic, IntegerParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return name_of(params.op); }
  Specs infer(SpecView in) const override { return {{in[0].dtype, common_shape(name(), in), {}}}; }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    visit_integer(in[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      for_broadcast_lines<2>(ctx.pool(), out[0].spec.shape, in, [&](const Line<2>& l) {
        const T *a = in[0].as<T>() + l.from[0], *b = in[1].as<T>() + l.from[1];
        T* y = out[0].as<T>() + l.first;
        for (int64_t i = 0; i < l.size; ++i)
          y[i] = evaluate(params.op, a[i * l.step[0]], b[i * l.step[1]]);
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) integer_arithmetic_cuda(ctx, params.op, in, out[0]);
  }
};

struct ComparisonParams {
  ComparisonDirection relation;
  bool operator==(const ComparisonParams&) const = default;
};

class Comparison final : public OpBase<Comparison, ComparisonParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override {
    constexpr const char* kNames[] = {"equal", "not_equal", "less", "less_equal"};
    return kNames[static_cast<size_t>(params.relation)];
  }
  Specs infer(SpecView in) const override { return {{DType::u8, common_shape(name(), in), {}}}; }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    visit_dtype(in[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      for_broadcast_lines<2>(ctx.pool(), out[0].spec.shape, in, [&](const Line<2>& l) {
        const T *a = in[0].as<T>() + l.from[0], *b = in[1].as<T>() + l.from[1];
        auto* y = out[0].as<uint8_t>() + l.first;
        for (int64_t i = 0; i < l.size; ++i)
          y[i] = evaluate(params.relation, a[i * l.step[0]], b[i * l.step[1]]);
      });
    });
  }
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) comparison_cuda(ctx, params.relation, in, out[0]);
  }
};

// The derivative of a comparison is 0 wherever it exists, so no gradient flows.
Tensor compare(ComparisonDirection relation, const Tensor& a, const Tensor& b) {
  return apply1(std::make_shared<Comparison>(ComparisonParams{relation}), {detach(a), detach(b)});
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
    visit_dtype(out[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      for_broadcast_lines<3>(ctx.pool(), out[0].spec.shape, in, [&](const Line<3>& l) {
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

}  // namespace

const char* name_of(IntegerOp op) {
  constexpr const char* kNames[] = {"add",       "sub",     "mul",    "floor_divide",
                                    "remainder", "maximum", "minimum"};
  return kNames[static_cast<size_t>(op)];
}

Tensor integer_arithmetic(IntegerOp op, const Tensor& a, const Tensor& b) {
  return apply1(std::make_shared<IntegerArithmetic>(IntegerParams{op}), {a, b});
}

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

namespace {

Tensor divided(IntegerOp op, const Tensor& a, const Tensor& b) {
  for (const Tensor* x : {&a, &b})
    if (is_float(x->dtype()))
      throw ShapeError(
          fmt::format("{}: both inputs must be integers, but one is {}; use / or cast()",
                      name_of(op), x->spec().text()));
  return integer_arithmetic(op, a, b);
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

}  // namespace tessera
