#include "tessera/layers/optimizers/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/finite.h"
#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"
#include "tessera/layers/optimizers/optimizer_ops.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// Inputs: lr and the tensors that have to be finite. Output: lr or NaN.
class LrIfFinite final : public OpBase<LrIfFinite> {
 public:
  std::string_view name() const override { return "lr_if_finite"; }
  Specs infer(SpecView in) const override {
    for (const TensorSpec& spec : in)
      if (spec.dtype != DType::f32 && spec.dtype != DType::f64)
        throw ShapeError(fmt::format(
            "lr_if_finite: inputs must be float32 or float64, but one is {}", spec.text()));
    if (in[0].shape.elements() != 1) throw ShapeError("lr_if_finite: lr must have one element");
    return {in[0]};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const bool finite = all_finite(ctx, in.subspan(1));
    visit_float(out[0].spec.dtype, [&]<class T>(T) {
      *out[0].as<T>() = finite ? *in[0].as<T>() : std::numeric_limits<T>::quiet_NaN();
    });
  }

  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    if (target.device.is_cpu()) return {{}};
    return {{.scratch_bytes = finite_scratch(in.subspan(1))}};
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda) lr_if_finite_cuda(ctx, in, out[0], scratch);
  }
};

// Inputs: the factor, and at most kMost tensors. For GPUs, where launching many small kernels would
// cost more than their work.
class ScaleTensors final : public OpBase<ScaleTensors> {
 public:
  static constexpr size_t kMost = 31;  // bits of may_reuse()
  std::string_view name() const override { return "scale_tensors"; }
  Specs infer(SpecView in) const override {
    const InputCheck check("scale_tensors", in.first(1), {"factor"});
    check.floats({0});
    if (in[0].shape.elements() != 1) check.fail("the factor must have one element");
    for (const TensorSpec& x : in.subspan(1))
      if (x.dtype != in[0].dtype) check.fail("all tensors must have the factor's dtype");
    return {in.begin() + 1, in.end()};
  }
  uint32_t may_reuse(int output) const override { return uint32_t{2} << output; }
  bool runs_on(DeviceKind kind) const override { return kind != DeviceKind::cpu && kCuda; }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) scale_tensors_cuda(ctx, in[0], in.subspan(1), out);
  }
  Cost cost(SpecView in) const override {
    int64_t elements = 0;
    for (const TensorSpec& x : in.subspan(1)) elements += x.shape.elements();
    return cost_with(in, elements);
  }
};

class UpdateGate final : public OpBase<UpdateGate> {
 public:
  std::string_view name() const override { return "update_gate"; }
  Specs infer(SpecView in) const override {
    const InputCheck check("update_gate", in, {"lr", "gradient"});
    check.floats({0});
    check.floats({1});
    if (in[0].shape.elements() != 1) check.fail("lr must have one element");
    return {{in[1].dtype, Shape(), {}}};
  }
  void run(CpuContext& ctx, Buffers in, Buffers out, Buffer) const override {
    const bool updates = may_update(ctx, {in[0], in[1]});
    visit_float(out[0].spec.dtype, [&]<class T>(T) { *out[0].as<T>() = updates ? 1 : 0; });
  }
  std::vector<Algorithm> algorithms(SpecView in, const Target& target) const override {
    if (target.device.is_cpu()) return {{}};
    return {{.scratch_bytes = finite_scratch(in.subspan(1))}};
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda) update_gate_cuda(ctx, in, out[0], scratch);
  }
};

class IncrementStep final : public OpBase<IncrementStep> {
 public:
  std::string_view name() const override { return "increment_step"; }
  Specs infer(SpecView in) const override {
    const InputCheck check("increment_step", in, {"counter", "lr"});
    check.dtype(0, DType::i64);
    check.shape(0, {1}, "one counter");
    check.floats({1});
    if (in[1].shape.elements() != 1) check.fail("lr must have one element");
    return {in[0]};
  }
  int updates(int) const override { return 0; }
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    if (std::isfinite(read_scalar(in[1]))) ++*out[0].as<int64_t>();
  }
  void run(CudaContext& ctx, Buffers in, Buffers out, Buffer) const override {
    if constexpr (kCuda) increment_step_cuda(ctx, out[0], in[1]);
  }
};

}  // namespace

Tensor update_gate(const Tensor& lr, const Tensor& gradient) {
  const NoGradScope no_grad;
  return apply1(std::make_shared<UpdateGate>(), {lr, gradient});
}

Tensor increment_step(const Tensor& counter, const Tensor& lr) {
  const NoGradScope no_grad;
  return apply1(std::make_shared<IncrementStep>(), {counter, lr});
}

Tensors scaled_by(Tensors tensors, const Tensor& factor) {
  const NoGradScope no_grad;
  if (factor.device().is_cpu()) {
    for (Tensor& x : tensors) x = x * factor;
    return tensors;
  }
  for (size_t first = 0; first < tensors.size(); first += ScaleTensors::kMost) {
    const auto part =
        std::span(tensors).subspan(first, std::min(ScaleTensors::kMost, tensors.size() - first));
    Tensors in{factor};
    in.insert(in.end(), part.begin(), part.end());
    std::ranges::copy(tessera::apply(std::make_shared<ScaleTensors>(), std::move(in)),
                      part.begin());
  }
  return tensors;
}

Tensor lr_if_finite(const Tensor& lr, Tensors tensors) {
  NoGradScope no_grad;
  tensors.insert(tensors.begin(), lr);
  return apply1(std::make_shared<LrIfFinite>(), std::move(tensors));
}

const std::string& persistent_name(const Tensor& tensor) { return tensor.impl()->storage->name; }

void Optimizer::step(std::span<const Tensor> gradients, const Tensor& lr) {
  if (gradients.size() != parameters_.size())
    throw ShapeError(fmt::format("{}: needs one gradient for each of its {} parameters, but got {}",
                                 name_, parameters_.size(), gradients.size()));
  const NoGradScope no_grad;
  update(gradients, lr);
}

void Optimizer::set_scales(std::vector<ParameterScale> scales) {
  if (scales.size() != parameters_.size())
    throw ConfigError(
        fmt::format("optimizer: needs factors for each of its {} parameters, but got {}",
                    parameters_.size(), scales.size()));
  scales_ = std::move(scales);
}

Tensor Optimizer::declare_state(Store& store, std::string_view what, const Tensor& parameter,
                                const Initializer& first) {
  return store.optimizer_state(fmt::format("optimizer.{}.{}", what, persistent_name(parameter)),
                               parameter.shape(), first, parameter.dtype());
}

Tensor Optimizer::declare_step(Store& store) {
  return store.optimizer_state("optimizer.step", {1}, Initializer::zeros(), DType::i64);
}

Tensors Optimizer::declare_states(Store& store, std::string_view what,
                                  const Initializer& first) const {
  Tensors states;
  for (const Tensor& parameter : parameters_)
    states.push_back(declare_state(store, what, parameter, first));
  return states;
}

}  // namespace tessera
