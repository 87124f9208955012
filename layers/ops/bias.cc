#include "tessera/layers/ops/bias.h"

#include <fmt/format.h>

#include "tessera/engine/pointwise.h"
#include "tessera/layers/shared/checks.h"

namespace tessera {

Tensor bias(const Tensor& x, const Tensor& b) {
  const TensorSpec in[] = {x.spec(), b.spec()};
  InputCheck check("bias", in, {"x", "b"});
  check.floats();
  if (x.shape().rank() == 0) check.fail("x must have at least one axis");
  check.shape(1, {x.shape().back()}, "one value for each channel of x");
  ScalarBuilder y(2);
  ScalarProgram sum = y.build(y.add(y.in(0), y.in(1)));
  const PointwiseGrad pass{{PointwiseGrad::kGradient}, {.inputs = 1, .code = {}}};
  return pointwise("bias", std::move(sum), {x, b}, {pass, pass}, x.dtype());
}

}  // namespace tessera
