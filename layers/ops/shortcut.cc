#include "tessera/layers/ops/shortcut.h"

#include <fmt/format.h>

#include "tessera/layers/ops/slice.h"
#include "tessera/layers/shared/checks.h"

namespace tessera {

Tensor shortcut(const Tensor& x, const ShortcutParams& params) {
  InputCheck check("shortcut", std::span(&x.spec(), 1), {"x"});
  check.floats();
  check.rank(0, 4);
  const Shape& s = x.shape();
  const int64_t stride = params.stride, missing = params.channels - s[3];
  if (stride < 1) check.fail(fmt::format("stride must be at least 1, but is {}", stride));
  if (missing < 0)
    check.fail(fmt::format("y must not have fewer channels than x, but has {}", params.channels));
  return slice(x, {.begin = {0, 0, 0, -(missing / 2)},
                   .step = {1, stride, stride, 1},
                   .size = {s[0], (s[1] + stride - 1) / stride, (s[2] + stride - 1) / stride,
                            params.channels}});
}

}  // namespace tessera
