#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/ops/concat.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/reduce_max.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/layers/shared/checks.h"

namespace tessera {
namespace {

// Reduces `out` windows along one axis to one value each; the axis stays.
template <class Reduce>
Tensor along(const Tensor& x, int axis, int64_t out, const Reduce& reduce) {
  constexpr size_t kMaxConcat = 32;  // maximum number of tensors of concat
  const int64_t size = x.shape()[axis];
  Tensors windows;
  for (int64_t i = 0; i < out; ++i) {
    if (windows.size() == kMaxConcat) windows = {concat(windows, axis)};
    const int64_t begin = i * size / out, end = ((i + 1) * size + out - 1) / out;
    windows.push_back(reduce(slice(x, axis, begin, end), axis));
  }
  return concat(windows, axis);
}

template <class Pool, class Reduce>
Tensor adaptive(const char* name, const Tensor& x, Size2 out, const Pool& pool,
                const Reduce& reduce) {
  InputCheck check(name, std::span(&x.spec(), 1), {"x"});
  check.floats();
  check.rank(0, 4);
  if (out.h < 1 || out.w < 1) check.fail(fmt::format("out must be >= 1, but is {}", out.text()));
  const int64_t h = x.shape()[1], w = x.shape()[2];
  if (h < 1 || w < 1) check.fail("x must have at least one pixel");
  if (h % out.h == 0 && w % out.w == 0) return pool(x, {.kernel = {h / out.h, w / out.w}});
  return along(along(x, 1, out.h, reduce), 2, out.w, reduce);
}

}  // namespace

Tensor adaptive_max_pool2d(const Tensor& x, Size2 out) {
  return adaptive("adaptive_max_pool2d", x, out, max_pool2d,
                  [](const Tensor& part, int axis) { return max(part, axis, true); });
}

Tensor adaptive_average_pool2d(const Tensor& x, Size2 out) {
  return in_float32(x, [&](const Tensor& wide) {
    return adaptive("adaptive_average_pool2d", wide, out, average_pool2d,
                    [](const Tensor& part, int axis) { return mean(part, {axis}, true); });
  });
}

}  // namespace tessera
