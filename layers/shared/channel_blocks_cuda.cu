// GPU kernels of sums over rows for every channel. A block of threads sums one block of rows of
// some adjacent channels (column_code.h). S is the type of the rows in memory, T that of the sums.
#include "tessera/engine/half_cuda.h"
#include "tessera/layers/shared/kernels_cuda.h"
#include "tessera/runtime/cuda/check.h"
#include "tessera/runtime/cuda/column_code.h"
#include "tessera/runtime/cuda/context.h"

namespace tessera {
namespace {

// Rows that a thread loads before it computes, so that enough bytes are in flight.
template <class S>
inline constexpr int kRowsAtOnce = sizeof(S) == 2 ? 8 : 4;

// Returns the moments of four rows.
template <class T, int N, class S>
__device__ ColumnMoments<T, N> moments_of_four(const Pack<S, N>* rows) {
  const Pack<T, N> a = widened(rows[0]), b = widened(rows[1]);
  const Pack<T, N> d = widened(rows[2]), e = widened(rows[3]);
  ColumnMoments<T, N> four;
  four.count = 4;
  for (int k = 0; k < N; ++k) {
    const T mean = ((a[k] + b[k]) + (d[k] + e[k])) / 4;
    const T da = a[k] - mean, db = b[k] - mean, dd = d[k] - mean, de = e[k] - mean;
    four.mean[k] = mean;
    four.m2[k] = (da * da + db * db) + (dd * dd + de * de);
  }
  return four;
}

template <int N, class S, class T>
__global__ void __launch_bounds__(kColumnThreads, 4)
    moments_of_blocks(ChannelBlocks blocks, int64_t c, const S* x, T* moments, ColumnThread place) {
  const int64_t block = place.block(), at = place.column() * N;
  const bool vectorized = takes_packs<N>(x);
  const int64_t rows = at < c ? blocks.size(block) : 0, step = place.lines() * c;
  ColumnMoments<T, N> mine;
  int64_t r = place.line();
  x += (blocks.begin(block) + r) * c + at;
  const auto merge = [&]<int kRows>(std::integral_constant<int, kRows>) {
    for (; r + (kRows - 1) * place.lines() < rows; r += kRows * place.lines(), x += kRows * step) {
      Pack<S, N> loaded[kRows];
      TESSERA_UNROLL
      for (int k = 0; k < kRows; ++k) loaded[k] = load_vector<N>(x + k * step, vectorized);
      TESSERA_UNROLL
      for (int k = 0; k < kRows; k += 4) mine.merge(moments_of_four<T>(loaded + k));
    }
  };
  merge(std::integral_constant<int, kRowsAtOnce<S>>());
  if constexpr (sizeof(S) == 2) merge(std::integral_constant<int, 4>());
  for (; r < rows; r += place.lines(), x += step) {
    const Pack<T, N> value = widened(load_vector<N>(x, vectorized));
    ColumnMoments<T, N> one;
    one.count = 1;
    for (int k = 0; k < N; ++k) one.mean[k] = value[k];
    mine.merge(one);
  }
  merge_lines(mine, place);
  if (at >= c || place.line() != 0) return;
  moments += block * 2 * c + at;
  for (int k = 0; k < N; ++k) moments[k] = mine.mean[k], moments[c + k] = mine.m2[k];
}

// Adds dy and dy (x - mean) of one row to the first and the second half of the sums.
template <int N, class T, class Mean>
__device__ void add_row(ColumnSums<T, 2 * N>& sums, const Pack<T, N>& dy, const Pack<T, N>& x,
                        Mean&& mean) {
  for (int k = 0; k < N; ++k) {
    sums.at[k] += dy[k];
    sums.at[N + k] += dy[k] * (x[k] - mean(k));
  }
}

template <int N, class S, class T>
__global__ void __launch_bounds__(kColumnThreads, sizeof(S) == 2 ? 3 : 4)
    gradient_sums_of_blocks(ChannelBlocks blocks, int64_t c, const S* dy, const S* x, const T* mean,
                            const T* scale, int64_t stats_stride, T* sums, ColumnThread place) {
  const int64_t block = place.block(), at = place.column() * N, stats = block * stats_stride + at;
  const bool vectorized = takes_packs<N>(dy) && takes_packs<N>(x);
  const int64_t rows = at < c ? blocks.size(block) : 0, step = place.lines() * c;
  ColumnSums<T, 2 * N> mine;
  Pack<T, N> middle = {};
  for (int k = 0; at < c && k < N; ++k) middle[k] = mean[stats + k];
  const auto mean_of = [&](int k) { return middle[k]; };
  int64_t r = place.line();
  const int64_t first = (blocks.begin(block) + r) * c + at;
  dy += first;
  x += first;
  constexpr int kRows = kRowsAtOnce<S> / 2;  // two tensors
  for (; r + (kRows - 1) * place.lines() < rows;
       r += kRows * place.lines(), dy += kRows * step, x += kRows * step) {
    Pack<S, N> g[kRows], v[kRows];
    TESSERA_UNROLL
    for (int k = 0; k < kRows; ++k) {
      g[k] = load_vector<N>(dy + k * step, vectorized);
      v[k] = load_vector<N>(x + k * step, vectorized);
    }
    TESSERA_UNROLL
    for (int k = 0; k < kRows; ++k) add_row(mine, widened(g[k]), widened(v[k]), mean_of);
  }
  const auto add_one = [&] {
    add_row(mine, widened(load_vector<N>(dy, vectorized)), widened(load_vector<N>(x, vectorized)),
            mean_of);
  };
  if constexpr (kRows == 2) {
    if (r < rows) add_one();
  } else {
    for (; r < rows; r += place.lines(), dy += step, x += step) add_one();
  }
  merge_lines(mine, place);
  if (at >= c || place.line() != 0) return;
  sums += block * 2 * c + at;
  for (int k = 0; k < N; ++k) sums[k] = mine.at[k], sums[c + k] = mine.at[N + k] * scale[stats + k];
}

template <int N, class T>
__global__ void __launch_bounds__(kColumnThreads, 4)
    gradient_sums_of_rows(ChannelBlocks blocks, int64_t c, const T* dy, const T* x, const T* mean,
                          const T* scale, T* sums, ColumnThread place) {
  const int64_t block = place.block(), at = place.column() * N;
  const bool vectorized = takes_packs<N>(dy) && takes_packs<N>(x);
  const int64_t rows = at < c ? blocks.size(block) : 0;
  ColumnSums<T, 2 * N> mine;
  for (int64_t r = place.line(); r < rows; r += place.lines()) {
    const int64_t row = blocks.begin(block) + r, from = row * c + at;
    const Pack<T, N> g = load_vector<N>(dy + from, vectorized),
                     v = load_vector<N>(x + from, vectorized);
    const T middle = mean[row], inverse = scale[row];
    for (int k = 0; k < N; ++k) {
      mine.at[k] += g[k];
      mine.at[N + k] += g[k] * ((v[k] - middle) * inverse);
    }
  }
  merge_lines(mine, place);
  if (at >= c || place.line() != 0) return;
  sums += block * 2 * c + at;
  for (int k = 0; k < N; ++k) sums[k] = mine.at[k], sums[c + k] = mine.at[N + k];
}

// The two halves of a block are adjacent, as 2 c columns.
template <class T>
__global__ void __launch_bounds__(kColumnThreads, 4)
    reduce_columns(int64_t blocks, int64_t c, const T* sums, T* first, T* second,
                   ColumnThread place) {
  const int64_t at = place.column();
  ColumnSums<T, 1> mine;
  for (int64_t b = place.line(); at < 2 * c && b < blocks; b += place.lines())
    mine.at[0] += sums[b * 2 * c + at];
  merge_lines(mine, place);
  if (at >= 2 * c || place.line() != 0) return;
  (at < c ? first[at] : second[at - c]) = mine.at[0];
}

}  // namespace

template <class S, class T>
void block_moments_cuda(CudaContext& ctx, ChannelBlocks blocks, int64_t c, const S* x, T* moments) {
  if (blocks.count() * c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  with_pack<T>(c, [&](auto pack) {
    launch_columns<ColumnMoments<T, pack()>>("block_moments", moments_of_blocks<pack(), S, T>,
                                             blocks.count(), c, pack(), kWarp, ctx.cuda_stream(),
                                             blocks, c, x, moments);
  });
}

template <class S, class T>
void block_gradient_sums_cuda(CudaContext& ctx, ChannelBlocks blocks, int64_t c, const S* dy,
                              const S* x, const T* mean, const T* scale, int64_t stats_stride,
                              T* sums) {
  if (blocks.count() * c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  with_pack<T>(c, [&](auto pack) {
    launch_columns<ColumnSums<T, 2 * pack()>>(
        "block_gradient_sums", gradient_sums_of_blocks<pack(), S, T>, blocks.count(), c, pack(),
        kWarp, ctx.cuda_stream(), blocks, c, dy, x, mean, scale, stats_stride, sums);
  });
}

template <class T>
void row_gradient_sums_cuda(CudaContext& ctx, ChannelBlocks blocks, int64_t c, const T* dy,
                            const T* x, const T* mean, const T* scale, T* sums) {
  if (blocks.count() * c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  with_pack<T>(c, [&](auto pack) {
    launch_columns<ColumnSums<T, 2 * pack()>>("row_gradient_sums", gradient_sums_of_rows<pack(), T>,
                                              blocks.count(), c, pack(), kWarp, ctx.cuda_stream(),
                                              blocks, c, dy, x, mean, scale, sums);
  });
}

template <class T>
void fold_blocks_cuda(CudaContext& ctx, int64_t blocks, int64_t c, const T* sums, T* first,
                      T* second) {
  if (c == 0) return;
  CudaDeviceGuard guard(ctx.index());
  launch_columns<ColumnSums<T, 1>>("reduce_blocks", reduce_columns<T>, 1, 2 * c, 1, kFewColumns,
                                   ctx.cuda_stream(), blocks, c, sums, first, second);
}

#define TESSERA_BLOCKS(S, T)                                                                       \
  template void block_moments_cuda(CudaContext&, ChannelBlocks, int64_t, const S*, T*);            \
  template void block_gradient_sums_cuda(CudaContext&, ChannelBlocks, int64_t, const S*, const S*, \
                                         const T*, const T*, int64_t, T*);
#define TESSERA_ROWS(T)                                                                          \
  template void row_gradient_sums_cuda(CudaContext&, ChannelBlocks, int64_t, const T*, const T*, \
                                       const T*, const T*, T*);                                  \
  template void fold_blocks_cuda(CudaContext&, int64_t, int64_t, const T*, T*, T*);
TESSERA_BLOCKS(float, float)
TESSERA_BLOCKS(double, double)
TESSERA_BLOCKS(bfloat16, float)
TESSERA_BLOCKS(float16, float)
TESSERA_ROWS(float)
TESSERA_ROWS(double)
#undef TESSERA_BLOCKS
#undef TESSERA_ROWS

}  // namespace tessera
