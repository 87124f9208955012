#include "tessera/layers/ops/reduce_max.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/engine/op.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

struct AxisParams {
  int axis = 0;
  int64_t size = 0;  // size of the axis, for the gradient
  bool operator==(const AxisParams&) const = default;
};

// dx is dy where x had its maximum, and 0 elsewhere.
class MaxGrad final : public OpBase<MaxGrad, AxisParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "max_grad"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"dy", "positions"});
    check.floats({0});
    check.dtype(1, DType::i64);
    check.shape(1, in[0].shape, "like dy");
    Shape x = in[0].shape;
    x[params.axis] = params.size;
    return {{in[0].dtype, x, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const AxisGeometry g(out[0].spec.shape, params.axis);
    visit_float(out[0].spec.dtype, [&]<class T>(T) {
      ctx.pool().parallel_for(g.outer, [&](int64_t o) {
        T* dx = out[0].as<T>() + o * g.n * g.inner;
        std::fill_n(dx, g.n * g.inner, T(0));
        for (int64_t i = 0; i < g.inner; ++i)
          dx[in[1].as<int64_t>()[o * g.inner + i] * g.inner + i] = in[0].as<T>()[o * g.inner + i];
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      max_grad_cuda(ctx, AxisGeometry(out[0].spec.shape, params.axis), in[0], in[1], out[0]);
  }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b10}; }
  Tensors grad(const GradArgs& args) const override {
    return {gather(args.grad_outputs[0], params.axis, args.inputs[1]), {}};
  }
};

// Outputs: the maxima and their positions; the axis stays, with size 1.
class Max final : public OpBase<Max, AxisParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "max"; }
  std::vector<OpAttribute> attributes() const override {
    return {{"axis", {static_cast<double>(params.axis)}}};
  }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"x"});
    check.floats();
    Shape y = in[0].shape;
    if (params.axis < 0 || params.axis >= y.rank())
      check.fail(fmt::format("axis {} does not exist", params.axis));
    if (y[params.axis] == 0) check.fail(fmt::format("axis {} has no elements", params.axis));
    y[params.axis] = 1;
    return {{in[0].dtype, y, {}}, {DType::i64, y, {}}};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const AxisGeometry g(in[0].spec.shape, params.axis);
    visit_float(in[0].spec.dtype, [&]<class T>(T) {
      ctx.pool().parallel_for(g.outer, [&](int64_t o) {
        const T* x = in[0].as<T>() + o * g.n * g.inner;
        T* y = out[0].as<T>() + o * g.inner;
        int64_t* at = out[1].as<int64_t>() + o * g.inner;
        for (int64_t i = 0; i < g.inner; ++i) y[i] = x[i], at[i] = 0;
        for (int64_t j = 1; j < g.n; ++j)
          for (int64_t i = 0; i < g.inner; ++i)
            if (!(x[j * g.inner + i] <= y[i]) && !std::isnan(y[i]))
              y[i] = x[j * g.inner + i], at[i] = j;
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda)
      max_cuda(ctx, AxisGeometry(in[0].spec.shape, params.axis), in[0], out[0], out[1]);
  }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.outputs = 0b10}; }
  Tensors grad(const GradArgs& args) const override {
    const AxisParams back{params.axis, args.input_specs[0].shape[params.axis]};
    return {apply1(std::make_shared<MaxGrad>(back), {args.grad_outputs[0], args.outputs[1]})};
  }

  Cost cost(SpecView in) const override { return cost_with(in, in[0].shape.elements()); }
};

Tensor reduce(const Tensor& x, int axis, bool keep, size_t output) {
  const int rank = x.shape().rank(), positive = axis < 0 ? axis + rank : axis;
  const Tensor y = apply(std::make_shared<Max>(AxisParams{positive}), {x})[output];
  if (keep) return y;
  std::vector<int64_t> left;
  for (int i = 0; i < rank; ++i)
    if (i != positive) left.push_back(y.shape()[i]);
  return reshape(y, Shape(left));
}

}  // namespace

Tensor max(const Tensor& x, int axis, bool keep) { return reduce(x, axis, keep, 0); }

Tensor argmax(const Tensor& x, int axis, bool keep) { return reduce(x, axis, keep, 1); }

Tensor min(const Tensor& x, int axis, bool keep) { return -max(-x, axis, keep); }

Tensor argmin(const Tensor& x, int axis, bool keep) { return argmax(-x, axis, keep); }

}  // namespace tessera
