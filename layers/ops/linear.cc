#include "tessera/layers/ops/linear.h"

#include <fmt/format.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/matmul.h"
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

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  const TensorSpec in[] = {x.spec(), w.spec()};
  InputCheck check("linear", in, {"x", "w"});
  check.rank(0, 2);
  check.rank(1, 2);
  if (x.shape()[1] != w.shape()[1])
    check.fail(fmt::format("x has {} features, but w expects {}", x.shape()[1], w.shape()[1]));
  const DType dtype = x.dtype();
  const Tensor y = matmul(x, is_half(dtype) ? cast(w, dtype) : w,
                          {.transpose_b = true, .float32_result = b.defined()});
  return b.defined() ? cast(bias(y, b), dtype) : y;
}

}  // namespace tessera
