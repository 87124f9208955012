#include "tessera/layers/ops/scale_channels.h"

#include "tessera/engine/structural.h"
#include "tessera/layers/shared/checks.h"
#include "tessera/layers/shared/sample_pointwise.h"

namespace tessera {
namespace {

// y = x scale; the gradient of scale is the sum of dy x over the pixels.
class ScaleChannels final : public SamplePointwise {
 public:
  ScaleChannels() : SamplePointwise({"scale_channels", product()}) {}

  static ScalarProgram product() {
    ScalarBuilder b(2);
    return b.build(b.mul(b.in(0), b.in(1)));
  }

  bool differentiable() const override { return true; }
  Saved saved() const override { return {.inputs = 0b11}; }

  Tensors grad(const GradArgs& args) const override {
    const Tensor& dy = args.grad_outputs[0];
    Tensors grads(2);
    if (args.needs(0)) grads[0] = scale_channels(dy, args.inputs[1]);
    if (args.needs(1)) grads[1] = sum(dy * args.inputs[0], {1, 2});
    return grads;
  }
};

}  // namespace

Tensor scale_channels(const Tensor& x, const Tensor& scale) {
  const TensorSpec in[] = {x.spec(), scale.spec()};
  InputCheck check("scale_channels", in, {"x", "scale"});
  check.floats();
  check.rank(0, 4);
  check.shape(1, {x.shape()[0], x.shape()[3]}, "one for each channel of each sample of x");
  return apply1(std::make_shared<ScaleChannels>(), {x, scale});
}

}  // namespace tessera
