// Pooling on a GPU. A thread gathers a few neighbouring channels of one pixel of the result, so no
// two threads write one element. T is the type of elements in memory.
#include <algorithm>

#include "tessera/engine/half_cuda.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/column_code.h"
#include "tessera/runtime/cuda/context.h"

namespace tessera {
namespace {

// Threads of a block: fewer for doubles and 64-bit indices, which take many registers. The kernels
// below request 4 blocks, which keeps the compiler from spilling registers to fit more.
template <class I, class T>
constexpr int kPoolThreads = sizeof(I) + sizeof(T) > 8 ? 128 : 256;

// Pack k of the `packs` packs of channels of pixel (i, j) of image b; images have h x w pixels.
template <class I>
struct Place {
  I b, i, j, k;
  __device__ Place(int64_t index, I h, I w, I packs) {
    const I pixel = static_cast<I>(index) / packs, row = pixel / w;
    k = static_cast<I>(index) % packs;
    j = pixel % w;
    i = row % h;
    b = row / h;
  }
};

template <int N, class I, class T>
__global__ void __launch_bounds__(kPoolThreads<I, T>, 4)
    max_pixels(PoolShapeOf<I> s, int64_t total, const T* x, T* y, uint8_t* positions) {
  const bool vectorized = takes_packs<N>(x) && takes_packs<N>(y);
  for (int64_t index = first_index(); index < total; index += index_stride()) {
    const Place<I> at(index, s.out_h(), s.out_w(), s.c / N);
    const auto u = s.rows_under(at.i), v = s.columns_under(at.j);
    const I top = at.i * s.stride_h - s.pad_h, left = at.j * s.stride_w - s.pad_w;
    const T* start = x + ((at.b * s.h + u.begin) * s.w + v.begin) * s.c + at.k * N;
    Pack<Computed<T>, N> best = widened(load_vector<N>(start, vectorized));
    int best_position[N];
    for (int k = 0; k < N; ++k)
      best_position[k] = static_cast<int>((u.begin - top) * s.kernel_w + v.begin - left);
    for (I p = u.begin; p < u.end; ++p)
      for (I q = v.begin; q < v.end; ++q) {
        const int position = static_cast<int>((p - top) * s.kernel_w + q - left);
        const I away = ((p - u.begin) * s.w + q - v.begin) * s.c;
        const auto value = widened(load_vector<N>(start + away, vectorized));
        for (int k = 0; k < N; ++k)  // NaN stays
          if (!(value[k] <= best[k]) && best[k] == best[k])
            best[k] = value[k], best_position[k] = position;
      }
    store_some(y + index * N, narrowed<T>(best), vectorized);
    if (positions == nullptr) continue;
    Pack<uint8_t, N> bytes;
    for (int k = 0; k < N; ++k) bytes[k] = static_cast<uint8_t>(best_position[k]);
    store_some(positions + index * N, bytes, takes_packs<N>(positions));
  }
}

template <int N, class I, class T>
__global__ void __launch_bounds__(kPoolThreads<I, T>, 4)
    max_pixels_grad(PoolShapeOf<I> s, int64_t total, const T* dy, const uint8_t* positions, T* dx) {
  const bool vectorized = takes_packs<N>(dy) && takes_packs<N>(dx);
  const bool bytes_together = takes_packs<N>(positions);
  for (int64_t index = first_index(); index < total; index += index_stride()) {
    const Place<I> at(index, s.h, s.w, s.c / N);
    const auto u = s.rows_over(at.i), v = s.columns_over(at.j);
    Pack<Computed<T>, N> sum = {};
    for (I p = u.begin; p < u.end; ++p)
      for (I q = v.begin; q < v.end; ++q) {
        const I row = at.i + s.pad_h - p * s.stride_h, column = at.j + s.pad_w - q * s.stride_w;
        const int here = static_cast<int>(row * s.kernel_w + column);
        const I from = ((at.b * s.out_h() + p) * s.out_w() + q) * s.c + at.k * N;
        const Pack<uint8_t, N> best_position = load_vector<N>(positions + from, bytes_together);
        const auto value = widened(load_vector<N>(dy + from, vectorized));
        for (int k = 0; k < N; ++k) sum[k] += best_position[k] == here ? value[k] : Computed<T>(0);
      }
    store_some(dx + index * N, narrowed<T>(sum), vectorized);
  }
}

template <int N, class I, class T>
__global__ void __launch_bounds__(kPoolThreads<I, T>, 4)
    average_pixels(PoolShapeOf<I> s, int64_t total, const T* x, T* y) {
  const bool vectorized = takes_packs<N>(x) && takes_packs<N>(y);
  for (int64_t index = first_index(); index < total; index += index_stride()) {
    const Place<I> at(index, s.out_h(), s.out_w(), s.c / N);
    const auto u = s.rows_under(at.i), v = s.columns_under(at.j);
    Pack<Computed<T>, N> sum = {};
    const T* row = x + ((at.b * s.h + u.begin) * s.w + v.begin) * s.c + at.k * N;
    for (I p = u.begin; p < u.end; ++p, row += s.w * s.c) {
      const T* from = row;
      for (I q = v.begin; q < v.end; ++q, from += s.c) {
        const auto value = widened(load_vector<N>(from, vectorized));
        for (int k = 0; k < N; ++k) sum[k] += value[k];
      }
    }
    const auto pixels = static_cast<Computed<T>>(s.divisor(u, v, at.i, at.j));
    for (int k = 0; k < N; ++k) sum[k] /= pixels;
    store_some(y + index * N, narrowed<T>(sum), vectorized);
  }
}

template <int N, class I, class T>
__global__ void __launch_bounds__(kPoolThreads<I, T>, 4)
    average_pixels_grad(PoolShapeOf<I> s, int64_t total, const T* dy, T* dx) {
  const bool vectorized = takes_packs<N>(dy) && takes_packs<N>(dx);
  for (int64_t index = first_index(); index < total; index += index_stride()) {
    const Place<I> at(index, s.h, s.w, s.c / N);
    const auto rows = s.rows_over(at.i), columns = s.columns_over(at.j);
    Pack<Computed<T>, N> sum = {};
    for (I p = rows.begin; p < rows.end; ++p)
      for (I q = columns.begin; q < columns.end; ++q) {
        const auto pixels =
            static_cast<Computed<T>>(s.divisor(s.rows_under(p), s.columns_under(q), p, q));
        const T* from = dy + ((at.b * s.out_h() + p) * s.out_w() + q) * s.c + at.k * N;
        const auto value = widened(load_vector<N>(from, vectorized));
        for (int k = 0; k < N; ++k) sum[k] += value[k] / pixels;
      }
    store_some(dx + index * N, narrowed<T>(sum), vectorized);
  }
}

template <int N, class T>
__global__ void __launch_bounds__(kColumnThreads)
    average_images(int64_t pixels, int64_t c, const T* x, T* y, ColumnThread place) {
  const bool vectorized = takes_packs<N>(x) && takes_packs<N>(y);
  const int64_t at = place.column() * N;
  ColumnSums<Computed<T>, N> mine;
  x += place.block() * pixels * c + at;
  for (int64_t r = place.line(); at < c && r < pixels; r += place.lines()) {
    const auto value = widened(load_vector<N>(x + r * c, vectorized));
    for (int k = 0; k < N; ++k) mine.at[k] += value[k];
  }
  merge_lines(mine, place);
  if (at >= c || place.line() != 0) return;
  Pack<T, N> mean;
  for (int k = 0; k < N; ++k) mean[k] = to_stored<T>(mine.at[k] / static_cast<Computed<T>>(pixels));
  store_some(y + place.block() * c + at, mean, vectorized);
}

template <int N, class I, class T>
__global__ void __launch_bounds__(kThreads)
    average_images_grad(I pixels, I c, int64_t total, const T* dy, T* dx) {
  const bool vectorized = takes_packs<N>(dy) && takes_packs<N>(dx);
  const I packs = c / N;
  for (int64_t index = first_index(); index < total; index += index_stride()) {
    const I at = static_cast<I>(index), b = at / packs / pixels;
    auto value = widened(load_vector<N>(dy + b * c + at % packs * N, vectorized));
    for (int k = 0; k < N; ++k) value[k] /= static_cast<Computed<T>>(pixels);
    store_some(dx + index * N, narrowed<T>(value), vectorized);
  }
}

template <class I>
PoolShapeOf<I> counted_in(const PoolShape& s) {
  const auto in = [](int64_t size) { return static_cast<I>(size); };
  return {.n = in(s.n),
          .h = in(s.h),
          .w = in(s.w),
          .c = in(s.c),
          .kernel_h = in(s.kernel_h),
          .kernel_w = in(s.kernel_w),
          .stride_h = in(s.stride_h),
          .stride_w = in(s.stride_w),
          .pad_h = in(s.pad_h),
          .pad_w = in(s.pad_w),
          .count_include_pad = s.count_include_pad,
          .ceil_mode = s.ceil_mode};
}

// Calls run(T(), N, shape in 32 or 64 bits, packs of N channels of y, grid) unless y is empty.
template <class Run>
void with_pool(CudaContext& ctx, const PoolShape& s, const Buffer& y, Run&& run) {
  if (y.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  const int64_t largest = s.n * std::max(s.h + 2 * s.pad_h + s.stride_h, s.out_h()) *
                          std::max(s.w + 2 * s.pad_w + s.stride_w, s.out_w()) * s.c;
  visit_any_float(y.spec.dtype, [&]<class T>(T zero) {
    with_pack<T>(s.c, [&](auto pack) {
      with_index(largest, [&]<class I>(I) {
        const int64_t total = y.elements() / pack();
        run(zero, pack, counted_in<I>(s), total, grid_for(total, kPoolThreads<I, T>, 1 << 20));
      });
    });
  });
}

}  // namespace

void max_pool2d_cuda(CudaContext& ctx, const PoolShape& shape, const Buffer& x, Buffers out) {
  uint8_t* positions = out.size() > 1 ? out[1].as<uint8_t>() : nullptr;
  with_pool(ctx, shape, out[0],
            [&]<class T, class I>(T, auto pack, const PoolShapeOf<I>& s, int64_t total, dim3 grid) {
              launch("max_pool2d", max_pixels<pack(), I, T>, grid, kPoolThreads<I, T>, 0,
                     ctx.cuda_stream(), s, total, x.as<const T>(), out[0].as<T>(), positions);
            });
}

void max_pool2d_grad_cuda(CudaContext& ctx, const PoolShape& shape, const Buffer& dy,
                          const Buffer& positions, const Buffer& dx) {
  with_pool(ctx, shape, dx,
            [&]<class T, class I>(T, auto pack, const PoolShapeOf<I>& s, int64_t total, dim3 grid) {
              launch("max_pool2d_grad", max_pixels_grad<pack(), I, T>, grid, kPoolThreads<I, T>, 0,
                     ctx.cuda_stream(), s, total, dy.as<const T>(), positions.as<const uint8_t>(),
                     dx.as<T>());
            });
}

void average_pool2d_cuda(CudaContext& ctx, const PoolShape& shape, const Buffer& x,
                         const Buffer& y) {
  with_pool(ctx, shape, y,
            [&]<class T, class I>(T, auto pack, const PoolShapeOf<I>& s, int64_t total, dim3 grid) {
              launch("average_pool2d", average_pixels<pack(), I, T>, grid, kPoolThreads<I, T>, 0,
                     ctx.cuda_stream(), s, total, x.as<const T>(), y.as<T>());
            });
}

void average_pool2d_grad_cuda(CudaContext& ctx, const PoolShape& shape, const Buffer& dy,
                              const Buffer& dx) {
  with_pool(ctx, shape, dx,
            [&]<class T, class I>(T, auto pack, const PoolShapeOf<I>& s, int64_t total, dim3 grid) {
              launch("average_pool2d_grad", average_pixels_grad<pack(), I, T>, grid,
                     kPoolThreads<I, T>, 0, ctx.cuda_stream(), s, total, dy.as<const T>(),
                     dx.as<T>());
            });
}

void global_average_pool_cuda(CudaContext& ctx, const PoolShape& s, const Buffer& x,
                              const Buffer& y) {
  if (y.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_any_float(y.spec.dtype, [&]<class T>(T) {
    with_pack<Computed<T>>(s.c, [&](auto pack) {
      launch_columns<ColumnSums<Computed<T>, pack()>>(
          "global_average_pool", average_images<pack(), T>, s.n, s.c, pack(), kWarp,
          ctx.cuda_stream(), s.h * s.w, s.c, x.as<const T>(), y.as<T>());
    });
  });
}

void global_average_pool_grad_cuda(CudaContext& ctx, const PoolShape& s, const Buffer& dy,
                                   const Buffer& dx) {
  const int64_t elements = dx.elements();
  if (elements == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_any_float(dx.spec.dtype, [&]<class T>(T) {
    with_pack<T>(s.c, [&](auto pack) {
      with_index(elements, [&]<class I>(I) {
        const int64_t total = elements / pack();
        launch("global_average_pool_grad", average_images_grad<pack(), I, T>,
               grid_for(total, kThreads, 1 << 20), kThreads, 0, ctx.cuda_stream(),
               static_cast<I>(s.h * s.w), static_cast<I>(s.c), total, dy.as<const T>(), dx.as<T>());
      });
    });
  });
}

}  // namespace tessera
