#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/strided_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"

namespace tessera {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads) fill(T* y, T value, int64_t packs, int64_t total) {
  constexpr int N = kPack<T>;
  Pack<T, N> values;
  for (int k = 0; k < N; ++k) values[k] = value;
  for (int64_t i = first_index(); i < packs; i += index_stride()) store_pack(y + i * N, values);
  for (int64_t i = packs * N + first_index(); i < total; i += index_stride()) y[i] = value;
}

template <class From, class To>
inline constexpr int kCastPack = static_cast<int>(16 / std::max(sizeof(From), sizeof(To)));

template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    convert(const From* x, To* y, int64_t packs, int64_t total) {
  constexpr int N = kCastPack<From, To>;
  for (int64_t i = first_index(); i < packs; i += index_stride()) {
    const Pack<From, N> from = load_pack<N>(x + i * N);
    Pack<To, N> to;
    for (int k = 0; k < N; ++k) to[k] = static_cast<To>(from[k]);
    store_pack(y + i * N, to);
  }
  for (int64_t i = packs * N + first_index(); i < total; i += index_stride())
    y[i] = static_cast<To>(x[i]);
}

template <class T>
struct StridedCopy {
  static constexpr int kInputs = 1, kNeighbours = kPack<T>;
  const T* x;
  T* y;
  template <int N>
  __device__ void make(int64_t i, const int64_t (&at)[1], const int64_t (&step)[1]) const {
    store_pack(y + i, load_line<N>(x + at[0], step[0]));
  }
};

}  // namespace

void fill_cuda(CudaContext& ctx, const Buffer& out, double value) {
  const int64_t total = out.elements();
  if (total == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_dtype(out.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* y = out.as<T>();
    const int64_t packs = takes_packs<kPack<T>>(y) ? total / kPack<T> : 0;
    launch("fill", fill<T>, grid_for(packs > 0 ? packs : total, kThreads, kMaxBlocks), kThreads, 0,
           ctx.cuda_stream(), y, static_cast<T>(value), packs, total);
  });
}

void cast_cuda(CudaContext& ctx, const Buffer& in, const Buffer& out) {
  const int64_t total = out.elements();
  if (total == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_dtype(in.spec.dtype, [&](auto from) {
    visit_dtype(out.spec.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      constexpr int N = kCastPack<From, To>;
      const auto* x = in.as<const From>();
      To* y = out.as<To>();
      const int64_t packs = takes_packs<N>(x) && takes_packs<N>(y) ? total / N : 0;
      launch("cast", convert<From, To>, grid_for(packs > 0 ? packs : total, kThreads, kMaxBlocks),
             kThreads, 0, ctx.cuda_stream(), x, y, packs, total);
    });
  });
}

void copy_strided_cuda(CudaContext& ctx, const Buffer& in, const Strides& strides,
                       const Buffer& out) {
  visit_bits(out.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const StridedCopy<T> copy{in.as<const T>(), out.as<T>()};
    launch_strided(ctx, "copy_strided", copy, out.spec.shape, {strides});
  });
}

}  // namespace tessera
