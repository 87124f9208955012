#include "tessera/layers/ops/linear.h"

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/ops/bias.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/layers/shared/checks.h"

namespace tessera {

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  const TensorSpec in[] = {x.spec(), w.spec()};
  InputCheck check("linear", in, {"x", "w"});
  check.rank(0, 2);
  check.rank(1, 2);
  if (x.shape()[1] != w.shape()[1]) {
    check.fail(fmt::format("x has {} features, but w expects {}", x.shape()[1], w.shape()[1]));
  }
  const DType dtype = x.dtype();
  const Tensor y = matmul(x, is_half(dtype) ? cast(w, dtype) : w,
                          {.transpose_b = true, .float32_result = b.defined()});
  return b.defined() ? cast(bias(y, b), dtype) : y;
}

}  // namespace tessera
