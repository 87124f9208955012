// Normalise: y = (x - mean) inverse gamma + beta, the pointwise last step of a norm, which defines
// the gradient. mean and inverse receive none: the norm's gradient covers their dependence on x.
// For the norms, not for users.
#pragma once

#include <string>
#include <utility>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/scalar_program.h"

namespace tessera {

class Normalise final : public Op {
 public:
  using Grad = Tensors (*)(const GradArgs&);
  // `result`: the dtype of x
  Normalise(std::string name, DType result, Grad grad)
      : step_({std::move(name), with_result(stages::program<1>(stages::norm), result)}),
        grad_(grad) {}
  bool is_equivalent(const Op& other) const override {
    auto* that = dynamic_cast<const Normalise*>(&other);
    return that != nullptr && that->grad_ == grad_ && that->pointwise() == pointwise();
  }
  std::string_view name() const override { return step_.name(); }
  Specs infer(SpecView in) const override { return step_.infer(in); }
  bool takes_half(DeviceKind kind, SpecView in) const override {
    return step_.takes_half(kind, in);
  }
  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx,
                                  const Algorithm& chosen) const override {
    return step_.prepare(in, ctx, chosen);
  }
  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b01111}; }  // x, mean, inverse, gamma
  Tensors grad(const GradArgs& args) const override { return grad_(args); }
  uint32_t may_reuse(int output) const override { return step_.may_reuse(output); }
  std::optional<ScalarProgram> pointwise() const override { return step_.pointwise(); }

 private:
  Pointwise step_;
  Grad grad_;
};

}  // namespace tessera
