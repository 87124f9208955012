#include "tessera/engine/strided_cuda.h"
#include "tessera/engine/structural_cuda.h"
#include "tessera/runtime/cuda/context.h"
#include "tessera/runtime/cuda/device_code.h"
#include "tessera/runtime/cuda/launch.h"

namespace tessera {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1 << 14;

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

// A thread writes N neighbours, which lie in one line of the output.
template <class T, int N, class Index>
__global__ void __launch_bounds__(kThreads)
    copy_strided(const T* x, T* y, const __grid_constant__ StridedAxes<1> axes, Index packs) {
  const int64_t step = axes.stride[0][axes.rank - 1];
  for (int64_t i = first_index(); i < packs; i += index_stride()) {
    int64_t at[1];
    axes.offsets(static_cast<Index>(i * N), at);
    const T* from = x + at[0];
    Pack<T, N> values;
    if (N > 1 && step == 1 && takes_packs<N>(from)) {
      values = load_pack<N>(from);
    } else {
      for (int k = 0; k < N; ++k) values[k] = from[k * step];
    }
    store_pack(y + i * N, values);
  }
}

template <class T, int N, class Index>
void copy_packs(CudaContext& where, const T* x, T* y, const StridedAxes<1>& axes) {
  const int64_t packs = axes.elements() / N;
  launch("copy_strided", copy_strided<T, N, Index>, grid_for(packs, kThreads, kMostBlocks),
         kThreads, 0, where.cuda_stream(), x, y, axes, static_cast<Index>(packs));
}

// Calls fn with an integer of the dtype's size: bits are moved alike.
template <class F>
void visit_bits(DType dtype, F&& fn) {
  if (size_of(dtype) == 1) fn(uint8_t{});
  if (size_of(dtype) == 4) fn(uint32_t{});
  if (size_of(dtype) == 8) fn(uint64_t{});
}

}  // namespace

void fill_cuda(CudaContext& where, const Buffer& out, double value) {
  const int64_t total = out.elements();
  if (total == 0) return;
  CudaDeviceGuard guard(where.index());
  visit_dtype(out.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* y = out.as<T>();
    const int64_t packs = takes_packs<kPack<T>>(y) ? total / kPack<T> : 0;
    launch("fill", fill<T>, grid_for(packs > 0 ? packs : total, kThreads, kMostBlocks), kThreads, 0,
           where.cuda_stream(), y, static_cast<T>(value), packs, total);
  });
}

void cast_cuda(CudaContext& where, const Buffer& in, const Buffer& out) {
  const int64_t total = out.elements();
  if (total == 0) return;
  CudaDeviceGuard guard(where.index());
  visit_dtype(in.spec.dtype, [&](auto from) {
    visit_dtype(out.spec.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      constexpr int N = kCastPack<From, To>;
      const auto* x = in.as<const From>();
      To* y = out.as<To>();
      const int64_t packs = takes_packs<N>(x) && takes_packs<N>(y) ? total / N : 0;
      launch("cast", convert<From, To>, grid_for(packs > 0 ? packs : total, kThreads, kMostBlocks),
             kThreads, 0, where.cuda_stream(), x, y, packs, total);
    });
  });
}

void copy_strided_cuda(CudaContext& where, const Buffer& in, const Strides& strides,
                       const Buffer& out) {
  if (out.elements() == 0) return;
  CudaDeviceGuard guard(where.index());
  const StridedAxes<1> axes(out.spec.shape, {strides});
  visit_bits(out.spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int N = kPack<T>;
    const auto* x = in.as<const T>();
    T* y = out.as<T>();
    const bool packs = axes.size[axes.rank - 1] % N == 0 && takes_packs<N>(y);
    if (packs && axes.is_small())
      copy_packs<T, N, int32_t>(where, x, y, axes);
    else if (packs)
      copy_packs<T, N, int64_t>(where, x, y, axes);
    else if (axes.is_small())
      copy_packs<T, 1, int32_t>(where, x, y, axes);
    else
      copy_packs<T, 1, int64_t>(where, x, y, axes);
  });
}

}  // namespace tessera
