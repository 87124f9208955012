#include "tessera/layers/ops/stochastic_depth.h"

#include <fmt/format.h>

#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/dropout.h"
#include "tessera/layers/shared/checks.h"

namespace tessera {

Tensor stochastic_depth(const Tensor& x, double p) {
  InputCheck check("stochastic_depth", std::span(&x.spec(), 1), {"x"});
  check.floats();
  if (!(p >= 0 && p < 1)) check.fail(fmt::format("p must be in [0, 1), but is {}", p));
  if (x.shape().rank() == 0) check.fail("x must have an axis of samples");
  if (!is_training() || p == 0) return x;
  const int64_t n = x.shape()[0];
  const Tensor kept = dropout(ones({n, 1}, x.dtype()), p);
  Shape shape = x.shape();
  for (int axis = 1; axis < shape.rank(); ++axis) shape[axis] = 1;
  return x * reshape(kept, shape);
}

}  // namespace tessera
