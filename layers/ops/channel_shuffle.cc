#include "tessera/layers/ops/channel_shuffle.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/shared/checks.h"

namespace tessera {

Tensor channel_shuffle(const Tensor& x, int64_t groups) {
  InputCheck check("channel_shuffle", std::span(&x.spec(), 1), {"x"});
  if (x.shape().rank() == 0) check.fail("x must have an axis of channels");
  const int64_t c = x.shape().back();
  if (groups < 1 || c % groups != 0)
    check.fail(fmt::format("{} groups do not divide {} channels", groups, c));
  const int64_t rows = x.elements() / std::max<int64_t>(c, 1);
  return reshape(transpose(reshape(x, Shape{rows, groups, c / groups})), x.shape());
}

}  // namespace tessera
