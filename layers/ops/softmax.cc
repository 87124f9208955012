#include "tessera/layers/ops/softmax.h"

#include <algorithm>
#include <cmath>

#include "tessera/engine/float_functions.h"
#include "tessera/engine/op.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/for_rows.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

// Calls fn(first element, elements) for each row.
template <class F>
void for_each_row(ThreadPool& pool, const Shape& x, F&& fn) {
  const int64_t c = x.back();
  for_rows(pool, x.elements() / std::max<int64_t>(1, c), c, 4096,
           [&](int64_t row) { fn(row * c, c); });
}

template <class T>
void softmax_row(const T* x, int64_t c, bool logarithm, T* y) {
  const T most = *std::max_element(x, x + c);
  T sum = 0;
  for (int64_t j = 0; j < c; ++j) {
    const T power = exp_of(x[j] - most);
    sum += power;
    y[j] = logarithm ? x[j] - most : power;
  }
  if (logarithm) {
    const T log_sum = log_of(sum);
    for (int64_t j = 0; j < c; ++j) y[j] -= log_sum;
  } else {
    for (int64_t j = 0; j < c; ++j) y[j] /= sum;
  }
}

// softmax: dx = y (dy - sum(dy y)); logarithm: dx = dy - exp(y) sum(dy)
template <class T>
void softmax_grad_row(const T* dy, const T* y, int64_t c, bool logarithm, T* dx) {
  T sum = 0;
  for (int64_t j = 0; j < c; ++j) sum += logarithm ? dy[j] : dy[j] * y[j];
  for (int64_t j = 0; j < c; ++j)
    dx[j] = logarithm ? dy[j] - exp_of(y[j]) * sum : y[j] * (dy[j] - sum);
}

// params: whether y is the logarithm
class SoftmaxGrad final : public OpBase<SoftmaxGrad, bool> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return params ? "log_softmax_grad" : "softmax_grad"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"dy", "y"});
    check.floats();
    check.shape(0, in[1].shape, "like y");
    return {in[0]};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    visit_float(in[0].spec.dtype, [&]<class T>(T) {
      for_each_row(ctx.pool(), in[0].spec.shape, [&](int64_t at, int64_t c) {
        softmax_grad_row(in[0].as<T>() + at, in[1].as<T>() + at, c, params, out[0].as<T>() + at);
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) softmax_grad_cuda(ctx, params, in[0], in[1], out[0]);
  }

  uint32_t may_reuse(int) const override { return 0b11; }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b11}; }
  Tensors grad(const GradArgs& args) const override {
    const Tensor &dy = args.inputs[0], &y = args.inputs[1], &g = args.grad_outputs[0];
    const std::vector<int> row{-1};
    Tensors grads(2);
    if (params) {
      const Tensor power = exp(y);
      if (args.needs(0)) grads[0] = g - sum(g * power, row, true);
      if (args.needs(1)) grads[1] = -(g * power) * sum(dy, row, true);
      return grads;
    }
    const Tensor share = sum(g * y, row, true);
    if (args.needs(0)) grads[0] = y * (g - share);
    if (args.needs(1)) grads[1] = g * (dy - sum(dy * y, row, true)) - dy * share;
    return grads;
  }

  Cost cost(SpecView in) const override { return cost_with(in, 4 * in[0].shape.elements()); }
};

// params: whether to compute the logarithm
class Softmax final : public OpBase<Softmax, bool> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return params ? "log_softmax" : "softmax"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"x"});
    check.floats();
    if (in[0].shape.rank() == 0) check.fail("x must have at least one axis");
    return {in[0]};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    visit_float(in[0].spec.dtype, [&]<class T>(T) {
      for_each_row(ctx.pool(), in[0].spec.shape, [&](int64_t at, int64_t c) {
        softmax_row(in[0].as<T>() + at, c, params, out[0].as<T>() + at);
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) softmax_cuda(ctx, params, in[0], out[0]);
  }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.outputs = 1}; }
  Tensors grad(const GradArgs& args) const override {
    return {apply1(std::make_shared<SoftmaxGrad>(params), {args.grad_outputs[0], args.outputs[0]})};
  }
  uint32_t may_reuse(int) const override { return 1; }

  // Counts the maximum, a difference, its exponential, the sum and a division.
  Cost cost(SpecView in) const override { return cost_with(in, 5 * in[0].shape.elements()); }
};

}  // namespace

Tensor softmax(const Tensor& x) { return apply1(std::make_shared<Softmax>(false), {x}); }

Tensor log_softmax(const Tensor& x) { return apply1(std::make_shared<Softmax>(true), {x}); }

}  // namespace tessera
