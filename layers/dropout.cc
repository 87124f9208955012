#include "tessera/layers/dropout.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/op.h"
#include "tessera/engine/scope.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/runtime/random.h"

namespace tessera {
namespace {

struct DropoutParams {
  double p;
  uint64_t key;
  bool operator==(const DropoutParams&) const = default;
};

// Elements [first, last) of sample `sample`; first is a multiple of 4.
template <class T>
void drop(const DropoutParams& params, int64_t step, int64_t sample, int64_t first, int64_t last,
          const T* x, T* y) {
  const auto threshold = static_cast<uint64_t>(params.p * 0x1p32);
  const T scale = static_cast<T>(1 / (1 - params.p));
  const uint64_t high = static_cast<uint64_t>(step) << 32 ^ static_cast<uint64_t>(sample);
  for (int64_t i = first; i < last; i += 4) {
    const auto bits = philox(params.key, high, static_cast<uint64_t>(i / 4));
    for (int64_t k = i; k < std::min(i + 4, last); ++k)
      y[k] = bits[static_cast<size_t>(k - i)] >= threshold ? x[k] * scale : T(0);
  }
}

// Linear in x, so that the gradient is the op itself on dy.
class Dropout final : public OpBase<Dropout> {
 public:
  explicit Dropout(DropoutParams params) : params(params) {}
  std::string_view name() const override { return "dropout"; }

  Specs infer(std::span<const TensorSpec> in) const override {
    InputCheck check(name(), in, {"x", "position"});
    check.floats({0});
    check.dtype(1, DType::i64);
    check.shape(1, {2}, "the step and the index of the first sample");
    return {in[0]};
  }

  void run(CpuContext& where, Buffers in, Buffers out, Buffer) const override {
    constexpr int64_t kTask = 4096;  // elements of a sample
    const Shape& shape = in[0].spec.shape;
    const int64_t size = shape.elements(1, shape.rank()), parts = (size + kTask - 1) / kTask;
    const auto* position = in[1].as<int64_t>();
    visit_float(in[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      where.pool().parallel_for(shape[0] * parts, [&](int64_t task) {
        const int64_t row = task / parts, first = task % parts * kTask;
        drop<T>(params, position[0], position[1] + row, first, std::min(first + kTask, size),
                in[0].as<T>() + row * size, out[0].as<T>() + row * size);
      });
    });
  }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b10}; }
  Tensors grad(const GradArgs& args) const override {
    return {apply1(std::make_shared<Dropout>(params), {args.grad_outputs[0], args.inputs[1]}), {}};
  }
  uint32_t may_reuse(int) const override { return 0b01; }

  const DropoutParams params;
};

}  // namespace

Tensor dropout(const Tensor& x, double p) {
  InputCheck check("dropout", std::span(&x.spec(), 1), {"x"});
  if (!(p >= 0 && p < 1)) check.fail(fmt::format("p must be in [0, 1), is {}", p));
  if (x.shape().rank() == 0) check.fail("x must have an axis of samples");
  if (!is_training() || p == 0) return x;
  const RandomCall call = next_random_call("dropout");
  return apply1(std::make_shared<Dropout>(DropoutParams{p, call.key}), {x, call.position});
}

}  // namespace tessera
