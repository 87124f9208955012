// A scalar program over a batch whose inputs may have a value for every channel of every sample,
// which the pointwise op cannot read.
//
//   y [n, .., c]   inputs: [n, .., c], [n, c] (rank 2) or [c]; the first has the shape of y
//
// The output has the dtype of the first input. Has no gradient: for ops that define their own.
#pragma once

#include <string>

#include "tessera/engine/op.h"

namespace tessera {

struct SamplePointwiseParams {
  std::string name;
  ScalarProgram program;
  bool operator==(const SamplePointwiseParams&) const = default;
};

class SamplePointwise : public OpBase<SamplePointwise, SamplePointwiseParams> {
 public:
  using OpBase::OpBase;
  std::string_view name() const override { return params.name; }
  Specs infer(SpecView in) const override;
  bool takes_half(DeviceKind, SpecView) const override { return true; }
  std::unique_ptr<Kernel> prepare(SpecView in, Context& ctx,
                                  const Algorithm& chosen) const override;
  uint32_t may_reuse(int) const override { return (1u << params.program.inputs) - 1; }
  Cost cost(SpecView in) const override {
    return cost_with(in, params.program.operations() * in[0].shape.elements());
  }
};

Tensor sample_pointwise(std::string name, ScalarProgram program, Tensors inputs);

}  // namespace tessera
