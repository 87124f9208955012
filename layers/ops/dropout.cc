#include "tessera/layers/ops/dropout.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/op.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"

namespace tessera {
namespace {

// Drops out elements [first, last) of a sample; first is a multiple of 4.
template <class T>
void drop(const DropoutRule<T>& rule, uint64_t sample, int64_t first, int64_t last, const T* x,
          T* y) {
  for (int64_t i = first; i < last; i += 4) {
    const RandomBits bits = philox(rule.key, sample, static_cast<uint64_t>(i / 4));
    for (int64_t k = i; k < std::min(i + 4, last); ++k)
      y[k] = rule(bits[static_cast<size_t>(k - i)], x[k]);
  }
}

// Dropout is linear in x, so its gradient is the op itself applied to dy.
class DropoutOp final : public OpBase<DropoutOp, DropoutParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return "dropout"; }

  Specs infer(SpecView in) const override {
    InputCheck check(name(), in, {"x", "position"});
    check.floats({0});
    check.dtype(1, DType::i64);
    check.shape(1, {2}, "the step and the index of the first sample");
    return {in[0]};
  }

  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    constexpr int64_t kTask = 4096;  // elements of a sample
    const Shape& shape = in[0].spec.shape;
    const int64_t size = shape.elements(1, shape.rank()), parts = (size + kTask - 1) / kTask;
    const auto* position = in[1].as<int64_t>();
    visit_float(in[0].spec.dtype, [&]<class T>(T) {
      const DropoutRule<T> rule(params);
      ctx.pool().parallel_for(shape[0] * parts, [&](int64_t task) {
        const int64_t row = task / parts, first = task % parts * kTask;
        drop<T>(rule, dropout_sample(position[0], position[1] + row), first,
                std::min(first + kTask, size), in[0].as<T>() + row * size,
                out[0].as<T>() + row * size);
      });
    });
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) dropout_cuda(ctx, params, in[0], in[1], out[0]);
  }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b10}; }
  Tensors grad(const GradArgs& args) const override {
    return {apply1(std::make_shared<DropoutOp>(params), {args.grad_outputs[0], args.inputs[1]}),
            {}};
  }
  uint32_t may_reuse(int) const override { return 0b01; }

  Cost cost(SpecView in) const override { return cost_with(in, in[0].shape.elements()); }
};

}  // namespace

Tensor dropout(const Tensor& x, double p) {
  InputCheck check("dropout", std::span(&x.spec(), 1), {"x"});
  if (!(p >= 0 && p < 1)) check.fail(fmt::format("p must be in [0, 1), but is {}", p));
  if (x.shape().rank() == 0) check.fail("x must have an axis of samples");
  if (!is_training() || p == 0) return x;
  const RandomCall call = next_random_call("dropout");
  return apply1(std::make_shared<DropoutOp>(DropoutParams{p, call.key}), {x, call.position});
}

Tensor stochastic_depth(const Tensor& x, double p) {
  InputCheck check("stochastic_depth", std::span(&x.spec(), 1), {"x"});
  check.floats();
  if (!(p >= 0 && p < 1)) check.fail(fmt::format("p must be in [0, 1), but is {}", p));
  if (x.shape().rank() == 0) check.fail("x must have an axis of samples");
  if (!is_training() || p == 0) return x;
  const int64_t n = x.shape()[0];
  const Tensor kept = dropout(ones({n, 1}, x.dtype()), p);
  Shape shape = x.shape();
  for (int axis = 1; axis < shape.rank(); ++axis) shape[axis] = 1;
  return x * reshape(kept, shape);
}

}  // namespace tessera
