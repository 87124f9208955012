#include <algorithm>

#include "tessera/engine/half_cuda.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

constexpr int kChannels = 8;
constexpr int64_t kMaxTables = 2048;  // blocks; each makes its own table

// The channels of one launch.
struct Channels {
  int all, first, count;
  double mean[kChannels], stddev[kChannels];
};

// Each block begins with a table of the results of all 256 byte values. If N > 1, a thread handles
// N neighbours, and `channels` has all channels.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    normalize(const uint8_t* x, T* y, int64_t total, const __grid_constant__ Channels channels) {
  T* table = dynamic_shared<T>();
  for (int i = static_cast<int>(threadIdx.x); i < channels.count * 256; i += kThreads)
    table[i] = to_stored<T>(
        normalized_byte<Computed<T>>(i % 256, channels.mean[i / 256], channels.stddev[i / 256]));
  __syncthreads();
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    const int64_t element = i * N, pixel = quotient(element, channels.count);
    int c = static_cast<int>(element - pixel * channels.count);
    const int64_t at = pixel * channels.all + channels.first + c;
    const Pack<uint8_t, N> from = load_pack<N>(x + at);
    Pack<T, N> to;
    for (int k = 0; k < N; ++k) {
      to[k] = table[c * 256 + from[k]];
      if (++c == channels.count) c = 0;
    }
    store_pack(y + at, to);
  }
}

template <class T, int N>
void launch_normalize(CudaContext& ctx, const Channels& channels, int64_t pixels, const uint8_t* x,
                      T* y) {
  const int64_t total = pixels * channels.count / N;
  launch("image_normalize", normalize<T, N>, grid_for(total, kThreads, kMaxTables), kThreads,
         static_cast<size_t>(channels.count) * 256 * sizeof(T), ctx.cuda_stream(), x, y, total,
         channels);
}

}  // namespace

void image_normalize_cuda(CudaContext& ctx, const ImageNormalizeParams& params, const Buffer& x,
                          const Buffer& y) {
  if (x.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  const auto* from = x.as<const uint8_t>();
  Channels channels{};
  channels.all = static_cast<int>(params.mean.size());
  const int64_t pixels = x.elements() / channels.all;
  for (; channels.first < channels.all; channels.first += channels.count) {
    channels.count = std::min(kChannels, channels.all - channels.first);
    for (int c = 0; c < channels.count; ++c) {
      channels.mean[c] = params.mean[static_cast<size_t>(channels.first + c)];
      channels.stddev[c] = params.stddev[static_cast<size_t>(channels.first + c)];
    }
    visit_any_float(params.dtype, [&]<class T>(T) {
      constexpr int N = kPack<T>;
      T* to = y.as<T>();
      if (channels.count == channels.all && x.elements() % N == 0 && takes_packs<N>(from) &&
          takes_packs<N>(to))
        launch_normalize<T, N>(ctx, channels, pixels, from, to);
      else
        launch_normalize<T, 1>(ctx, channels, pixels, from, to);
    });
  }
}

}  // namespace tessera
