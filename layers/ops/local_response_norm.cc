#include "tessera/layers/ops/local_response_norm.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/layers/shared/checks.h"

namespace tessera {

// Computes the sum over channels by pooling an image whose columns are the channels.
Tensor local_response_norm(const Tensor& x, const LocalResponseNormParams& p) {
  InputCheck check("local_response_norm", std::span(&x.spec(), 1), {"x"});
  check.floats();
  if (x.shape().rank() == 0) check.fail("x must have an axis of channels");
  if (p.size < 1) check.fail(fmt::format("size must be at least 1, but is {}", p.size));
  const int64_t c = x.shape().back(), rows = x.elements() / std::max<int64_t>(c, 1);
  return in_float32(x, [&](const Tensor& wide) {
    const Tensor columns = reshape(wide * wide, Shape{1, rows, c, 1});
    const Tensor squares = pad(columns, 2, p.size / 2, (p.size - 1) / 2);
    const Tensor means = average_pool2d(squares, {.kernel = {1, p.size}, .stride = Size2(1)});
    return wide * pow(reshape(means, x.shape()) * p.alpha + p.k, -p.beta);
  });
}

}  // namespace tessera
