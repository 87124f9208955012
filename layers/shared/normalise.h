// Normalise: y = (x - mean) inverse gamma + beta, the pointwise last step of a norm. mean and
// inverse receive no gradient here: the norm's own gradient covers their dependence on x. For the
// norms, not for users.
#pragma once

#include <string>
#include <utility>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/scalar_stages.h"

namespace tessera {

class Normalise : public Op {
 public:
  // `result`: the dtype of x
  Normalise(std::string name, DType result)
      : step_({std::move(name), with_result(stages::program<1>(stages::norm), result)}) {}
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
  uint32_t may_reuse(int output) const override { return step_.may_reuse(output); }
  std::optional<ScalarProgram> pointwise() const override { return step_.pointwise(); }

 private:
  Pointwise step_;
};

}  // namespace tessera
