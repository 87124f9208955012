#include "tessera/layers/optimizer.h"

#include <limits>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/finite.h"
#include "tessera/engine/finite_cuda.h"
#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"
#include "tessera/layers/optimizer_cuda.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

struct LrParams {
  bool operator==(const LrParams&) const = default;
};

// Inputs: lr and what has to be finite. Output: lr or NaN.
class LrIfFinite final : public OpBase<LrIfFinite> {
 public:
  std::string_view name() const override { return "lr_if_finite"; }
  Specs infer(std::span<const TensorSpec> in) const override {
    for (const TensorSpec& spec : in)
      if (spec.dtype != DType::f32 && spec.dtype != DType::f64)
        throw ShapeError(fmt::format("lr_if_finite: takes floats, was given {}", spec.text()));
    if (in[0].shape.elements() != 1) throw ShapeError("lr_if_finite: lr must have one element");
    return {in[0]};
  }
  void run(CpuContext& where, Buffers in, Buffers out, Buffer) const override {
    const bool finite = all_finite(where, in.subspan(1));
    visit_float(out[0].spec.dtype, [&](auto zero) {
      using T = decltype(zero);
      *out[0].as<T>() = finite ? *in[0].as<T>() : std::numeric_limits<T>::quiet_NaN();
    });
  }

  bool runs_on(DeviceKind kind) const override { return kind == DeviceKind::cpu || kCuda; }
  std::vector<Algorithm> algorithms(std::span<const TensorSpec> in,
                                    const Target& target) const override {
    if (target.device.is_cpu()) return {{}};
    return {{.scratch_bytes = finite_scratch(in.subspan(1))}};
  }
  void run(CudaContext& where, Buffers in, Buffers out, Buffer scratch) const override {
    if constexpr (kCuda) lr_if_finite_cuda(where, in, out[0], scratch);
  }

  const LrParams params{};
};

}  // namespace

Tensor lr_if_finite(const Tensor& lr, Tensors tensors) {
  NoGradScope no_grad;
  tensors.insert(tensors.begin(), lr);
  return apply1(std::make_shared<LrIfFinite>(), std::move(tensors));
}

const std::string& persistent_name(const Tensor& tensor) { return tensor.impl()->storage->name; }

void Optimizer::check_count(std::string_view who, std::span<const Tensor> gradients) const {
  if (gradients.size() == parameters_.size()) return;
  throw ShapeError(fmt::format("{}: takes one gradient for each of its {} parameters, was given {}",
                               who, parameters_.size(), gradients.size()));
}

size_t Optimizer::joined(size_t first) const {
  const TensorSpec& spec = parameters_[first].spec();
  size_t count = 1;
  while (!spec.device.is_cpu() && first + count < parameters_.size() &&
         parameters_[first + count].dtype() == spec.dtype)
    ++count;
  return count;
}

Tensors Optimizer::declare_states(Store& store, std::string_view what) const {
  Tensors states;
  for (const Tensor& parameter : parameters_) {
    states.push_back(
        store.optimizer_state(fmt::format("optimizer.{}.{}", what, persistent_name(parameter)),
                              parameter.shape(), Initializer::zeros(), parameter.dtype()));
  }
  return states;
}

}  // namespace tessera
