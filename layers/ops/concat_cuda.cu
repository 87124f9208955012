// concat on a GPU: a thread copies one unit of the result (units_cuda.h).
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/layers/shared/units_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/context.h"

namespace tessera {
namespace {

// A row of the result: input k is at [begin[k], begin[k + 1]), in units.
template <class Unit, class I>
struct Parts {
  const Unit* from[kMaxConcat];
  I begin[kMaxConcat + 1];
  int count;
};

template <class Unit, class I>
__global__ void __launch_bounds__(kThreads)
    put_side_by_side(const __grid_constant__ Parts<Unit, I> parts, int64_t total, Unit* y) {
  const I width = parts.begin[parts.count];
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    const I row = static_cast<I>(i) / width, at = static_cast<I>(i) - row * width;
    int k = 0;
    while (at >= parts.begin[k + 1]) ++k;
    const I begin = parts.begin[k];
    y[i] = parts.from[k][row * (parts.begin[k + 1] - begin) + at - begin];
  }
}

}  // namespace

void concat_cuda(CudaContext& ctx, int64_t outer, Buffers in, const Buffer& y) {
  if (y.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  int64_t unit = largest_unit({}, {y.data});
  for (const Buffer& x : in)
    if (x.elements() != 0)
      unit = std::gcd(unit, largest_unit({static_cast<int64_t>(x.spec.bytes()) / outer}, {x.data}));
  const int64_t total = static_cast<int64_t>(y.spec.bytes()) / unit;
  with_unit(unit, [&](auto one) {
    with_index(total, [&](auto index) {
      using Unit = decltype(one);
      using I = decltype(index);
      Parts<Unit, I> parts{};
      for (const Buffer& x : in) {
        if (x.elements() == 0) continue;
        parts.from[parts.count] = x.as<const Unit>();
        const int64_t width = static_cast<int64_t>(x.spec.bytes()) / outer / unit;
        parts.begin[parts.count + 1] = static_cast<I>(parts.begin[parts.count] + width);
        ++parts.count;
      }
      launch("concat", put_side_by_side<Unit, I>, grid_for(total, kThreads, 1 << 20), kThreads, 0,
             ctx.cuda_stream(), parts, total, y.as<Unit>());
    });
  });
}

}  // namespace tessera
