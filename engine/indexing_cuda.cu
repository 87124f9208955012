// GPU kernels of the index ops. Each thread computes its own elements of the result, so no element
// is written twice, and sums have the order of the CPU.
#include <bit>

#include "tessera/engine/kernels_cuda.h"
#include "tessera/engine/strided_cuda.h"

namespace tessera {
namespace {

constexpr int64_t kScatterThreads = 1 << 16;

template <class T, class I>
__global__ void __launch_bounds__(kThreads, 4)
    gather(const T* x, const I* index, const IndexGeometry g, int64_t size, T outside, T* y) {
  const int64_t slice = g.count * g.inner, total = g.outer * slice;
  for (int64_t i = first_index(); i < total; i += index_stride()) {
    const int64_t outer = quotient(i, slice), column = i - quotient(i, g.inner) * g.inner;
    const int64_t at = wrap_index(static_cast<int64_t>(index[i]), size);
    y[i] = at < 0 ? outside : x[(outer * size + at) * g.inner + column];
  }
}

// A column of dx, to which one column of indices refers, is cut into parts of `length` elements. A
// thread reads all indices of its column and adds those in its part, in their order. The time
// depends on the number of indices, not on the size of dx. Requires dx filled with zeros.
template <class T, class I>
__global__ void __launch_bounds__(kThreads, 4)
    scatter_add(const T* __restrict__ dy, const I* __restrict__ index, const IndexGeometry g,
                int64_t size, int64_t length, int64_t threads, T* dx) {
  const int64_t thread = first_index();
  if (thread >= threads) return;
  const int64_t columns = g.outer * g.inner;
  const int64_t part = quotient(thread, columns), column = thread - part * columns;
  const int64_t outer = quotient(column, g.inner), inner = column - outer * g.inner;
  const int64_t begin = part * length, end = begin + length;
  const int64_t from = outer * g.count * g.inner + inner;
  T* const to = dx + outer * size * g.inner + inner;
  int64_t at = -1;  // element of the current sum, as consecutive indices are often equal
  T sum = T(0);
  for (int64_t j = 0; j < g.count; ++j) {
    const int64_t place = wrap_index(static_cast<int64_t>(index[from + j * g.inner]), size);
    if (place < begin || place >= end) continue;
    if (place != at) {
      if (at >= 0) to[at * g.inner] = sum;
      sum = to[place * g.inner];
      at = place;
    }
    sum += dy[from + j * g.inner];
  }
  if (at >= 0) to[at * g.inner] = sum;
}

// Returns the N elements of y from `first` on, which may span several rows.
template <int N, class T, class I>
__device__ Pack<T, N> one_hot_values(const I* labels, int64_t classes, T one, int64_t first) {
  int64_t row = quotient(first, classes), column = first - row * classes;
  int64_t hot = wrap_index(static_cast<int64_t>(labels[row]), classes);
  Pack<T, N> values;
  for (int k = 0; k < N; ++k) {
    values[k] = column == hot ? one : T(0);
    if (k + 1 < N && ++column == classes) {
      column = 0;
      hot = wrap_index(static_cast<int64_t>(labels[++row]), classes);
    }
  }
  return values;
}

template <class T, class I>
__global__ void __launch_bounds__(kThreads, 4)
    one_hot(const I* labels, int64_t classes, T one, T* y, int64_t packs, int64_t total) {
  constexpr int N = kPack<T>;
  for (int64_t i = first_index(); i < packs; i += index_stride())
    store_pack(y + i * N, one_hot_values<N>(labels, classes, one, i * N));
  for (int64_t i = packs * N + first_index(); i < total; i += index_stride())
    store_pack(y + i, one_hot_values<1>(labels, classes, one, i));
}

// Returns the bits of `value` in the dtype.
template <class Bits>
Bits bits_of(DType dtype, double value) {
  Bits bits{};
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == sizeof(Bits)) bits = std::bit_cast<Bits>(static_cast<T>(value));
  });
  return bits;
}

}  // namespace

void gather_cuda(CudaContext& ctx, const Buffer& x, const Buffer& index,
                 const IndexGeometry& geometry, int64_t size, const Buffer& y) {
  if (y.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  const double outside = is_float(y.spec.dtype) ? std::numeric_limits<double>::quiet_NaN() : 0;
  visit_bits(y.spec.dtype, [&](auto bits) {
    visit_integer(index.spec.dtype, [&](auto zero) {
      using T = decltype(bits);
      using I = decltype(zero);
      launch("gather", gather<T, I>, grid_for(y.elements(), kThreads, kMaxBlocks), kThreads, 0,
             ctx.cuda_stream(), x.as<const T>(), index.as<const I>(), geometry, size,
             bits_of<T>(y.spec.dtype, outside), y.as<T>());
    });
  });
}

void scatter_add_cuda(CudaContext& ctx, const Buffer& dy, const Buffer& index,
                      const IndexGeometry& geometry, int64_t size, const Buffer& dx) {
  if (dx.elements() == 0) return;
  CudaDeviceGuard guard(ctx.index());
  ctx.fill(dx.data, 0, dx.spec.bytes());
  if (dy.elements() == 0) return;
  // Enough threads to fill a GPU, but no more, as each of them reads all indices.
  const int64_t columns = geometry.outer * geometry.inner;
  const int64_t parts = std::clamp<int64_t>(kScatterThreads / columns, 1, size);
  const int64_t length = ceil_div(size, parts), threads = ceil_div(size, length) * columns;
  visit_float(dx.spec.dtype, [&](auto value) {
    visit_integer(index.spec.dtype, [&](auto zero) {
      using T = decltype(value);
      using I = decltype(zero);
      launch("scatter_add", scatter_add<T, I>,
             grid_for(threads, kThreads, std::numeric_limits<int32_t>::max()), kThreads, 0,
             ctx.cuda_stream(), dy.as<const T>(), index.as<const I>(), geometry, size, length,
             threads, dx.as<T>());
    });
  });
}

void one_hot_cuda(CudaContext& ctx, const Buffer& labels, int64_t classes, const Buffer& y) {
  const int64_t total = y.elements();
  if (total == 0) return;
  CudaDeviceGuard guard(ctx.index());
  visit_bits(y.spec.dtype, [&](auto bits) {
    visit_integer(labels.spec.dtype, [&](auto zero) {
      using T = decltype(bits);
      using I = decltype(zero);
      const int64_t packs = takes_packs<kPack<T>>(y.as<T>()) ? total / kPack<T> : 0;
      launch("one_hot", one_hot<T, I>, grid_for(packs > 0 ? packs : total, kThreads, kMaxBlocks),
             kThreads, 0, ctx.cuda_stream(), labels.as<const I>(), classes,
             bits_of<T>(y.spec.dtype, 1), y.as<T>(), packs, total);
    });
  });
}

}  // namespace tessera
