#include "tessera/engine/finite.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "tessera/engine/lines.h"
#include "tessera/engine/reduce_simd.h"

namespace tessera {
namespace {

template <class T>
bool are_finite(const T* x, int64_t count) {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(finite_microkernels))(x, count);
}

template <class T>
int64_t first_of(std::span<const T> x) {
  if constexpr (sizeof(T) > 2)
    if (are_finite(x.data(), std::ssize(x))) return -1;
  const auto found = std::ranges::find_if_not(
      x, [](T value) { return std::isfinite(static_cast<double>(value)); });
  return found == x.end() ? -1 : found - x.begin();
}

}  // namespace

int64_t first_non_finite(std::span<const float> values) { return first_of(values); }
int64_t first_non_finite(std::span<const double> values) { return first_of(values); }
int64_t first_non_finite(std::span<const bfloat16> values) { return first_of(values); }
int64_t first_non_finite(std::span<const float16> values) { return first_of(values); }

bool all_finite(CpuContext& ctx, std::span<const Buffer> buffers) {
  constexpr int64_t kBlock = 65536;
  std::atomic<bool> finite{true};
  for (const Buffer& buffer : buffers) {
    visit_float(buffer.spec.dtype, [&](auto zero) {
      const auto* x = buffer.as<decltype(zero)>();
      for_chunks(ctx.pool(), buffer.elements(), kBlock, [&](int64_t first, int64_t count) {
        if (!are_finite(x + first, count)) finite.store(false, std::memory_order_relaxed);
      });
    });
  }
  return finite;
}

bool may_update(CpuContext& ctx, std::initializer_list<Buffer> from) {
  const bool finite = all_finite(ctx, {from.begin(), from.size()});
  if (!finite) ctx.count_skipped_update();
  return finite;
}

}  // namespace tessera
