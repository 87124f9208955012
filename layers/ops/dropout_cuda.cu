#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

// Each thread handles four neighbours of a sample, which share a counter. kPacks: all four exist
// and are aligned for packs.
template <class T, bool kPacks>
__global__ void __launch_bounds__(kThreads)
    drop(const DropoutRule<T> rule, const T* x, const int64_t* position, T* y, int64_t size,
         int64_t fours, int64_t total) {
  constexpr int N = kPack<T>;
  const int64_t step = position[0], first_sample = position[1];
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    const int64_t sample = quotient(i, fours), four = i - sample * fours;
    const RandomBits bits =
        philox(rule.key, dropout_sample(step, first_sample + sample), static_cast<uint64_t>(four));
    const int64_t at = sample * size + four * 4;
    if constexpr (kPacks) {
      for (int first = 0; first < 4; first += N) {
        Pack<T, N> values = load_pack<N>(x + at + first);
        for (int k = 0; k < N; ++k) values[k] = rule(bits.words[first + k], values[k]);
        store_pack(y + at + first, values);
      }
    } else {
      for (int k = 0; k < 4; ++k)
        if (four * 4 + k < size) y[at + k] = rule(bits.words[k], x[at + k]);
    }
  }
}

}  // namespace

void dropout_cuda(CudaContext& ctx, const DropoutParams& params, const Buffer& x,
                  const Buffer& position, const Buffer& y) {
  if (x.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  const Shape& shape = x.spec.shape;
  const int64_t size = shape.elements(1, shape.rank()), fours = ceil_div<int64_t>(size, 4);
  const int64_t total = shape[0] * fours;
  visit_float(x.spec.dtype, [&]<class T>(T) {
    const auto* from = x.as<const T>();
    T* to = y.as<T>();
    const bool packs = size % 4 == 0 && takes_packs<kPack<T>>(from) && takes_packs<kPack<T>>(to);
    launch("dropout", packs ? drop<T, true> : drop<T, false>, grid_for(total, kThreads, kMaxBlocks),
           kThreads, 0, ctx.cuda_stream(), DropoutRule<T>(params), from,
           position.as<const int64_t>(), to, size, fours, total);
  });
}

}  // namespace tessera
