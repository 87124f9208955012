#include "tessera/layers/shared/channel_reduce_simd.h"

#include <type_traits>

namespace tessera {
namespace {

// Rows are read in memory order and four at a time, so that the sums, which stay in L1, are loaded
// and stored once for four rows. A few channel counts have code that keeps the sums in registers:
// in the cache, few sums would wait for one another.

template <int64_t kChannels>
using Fixed = std::integral_constant<int64_t, kChannels>;

// Calls fn(first channel, channels) for parts of c channels with specialized code, or for all.
template <class F>
void with_channels(int64_t c, F&& fn) {
  if (c == 16) return fn(0, Fixed<16>());
  if (c == 24) return fn(0, Fixed<24>());
  if (c == 32) return fn(0, Fixed<32>());
  if (c % 64 != 0) return fn(0, c);
  for (int64_t first = 0; first < c; first += 64) fn(first, Fixed<64>());
}

// Bounds the number of sums: c if it is a constant.
template <class C>
constexpr int64_t kMaxChannels = kMomentChannels;
template <int64_t kChannels>
constexpr int64_t kMaxChannels<Fixed<kChannels>> = kChannels;

// Numbers of type T, converted as they are read.
template <class T>
struct Row {
  const T* data;
  Computed<T> operator[](int64_t j) const { return static_cast<Computed<T>>(data[j]); }
};

template <class T, class C>
void sum_rows(const T* x, int64_t rows, int64_t stride, C c, Computed<T>* __restrict sum) {
  const auto row = [=](int64_t r) { return Row<T>{x + r * stride}; };
  for (int64_t j = 0; j < c; ++j) sum[j] = 0;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const Row<T> x0 = row(r), x1 = row(r + 1), x2 = row(r + 2), x3 = row(r + 3);
    for (int64_t j = 0; j < c; ++j) sum[j] += (x0[j] + x1[j]) + (x2[j] + x3[j]);
  }
  for (; r < rows; ++r)
    for (int64_t j = 0; j < c; ++j) sum[j] += row(r)[j];
}

template <class T>
void sum(const T* x, int64_t rows, int64_t stride, int64_t c, Computed<T>* __restrict sum) {
  sum_rows(x, rows, stride, c, sum);
}

// Reads the rows twice; the caller keeps them few enough to stay in the cache, while the next rows
// come from memory. The sum of deviations, which would be zero without rounding, corrects the mean.
template <class S, class C, class T = Computed<S>>
void moments_of(const S* x, int64_t rows, int64_t stride, C c, T* __restrict mean,
                T* __restrict m2) {
  const auto row = [=](int64_t r) { return Row<S>{x + r * stride}; };
  T sums[kMaxChannels<C>], rest[kMaxChannels<C>], squares[kMaxChannels<C>];
  const T n = static_cast<T>(rows);
  sum_rows(x, rows, stride, c, sums);
  for (int64_t j = 0; j < c; ++j) sums[j] /= n, squares[j] = 0, rest[j] = 0;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const Row<S> x0 = row(r), x1 = row(r + 1), x2 = row(r + 2), x3 = row(r + 3);
    for (int64_t j = 0; j < c; ++j) {
      const T d0 = x0[j] - sums[j], d1 = x1[j] - sums[j];
      const T d2 = x2[j] - sums[j], d3 = x3[j] - sums[j];
      rest[j] += (d0 + d1) + (d2 + d3);
      squares[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
    }
  }
  for (; r < rows; ++r) {
    for (int64_t j = 0; j < c; ++j) {
      const T d = row(r)[j] - sums[j];
      rest[j] += d;
      squares[j] += d * d;
    }
  }
  for (int64_t j = 0; j < c; ++j) {
    const T error = rest[j] / n;
    mean[j] = sums[j] + error;
    m2[j] = squares[j] - error * rest[j];
  }
}

template <class T>
void moments(const T* x, int64_t rows, int64_t stride, int64_t c, Computed<T>* mean,
             Computed<T>* m2) {
  with_channels(c, [&](int64_t first, auto channels) {
    moments_of(x + first, rows, stride, channels, mean + first, m2 + first);
  });
}

template <class S, class C, class T = Computed<S>>
void gradient_sums_of(const S* dy, const S* x, const T* __restrict mean, const T* __restrict scale,
                      int64_t rows, int64_t stride, int64_t x_stride, C c, T* __restrict sums,
                      T* __restrict products) {
  const auto row = [=](int64_t r) { return Row<S>{x + r * x_stride}; };
  const auto gradient = [=](int64_t r) { return Row<S>{dy + r * stride}; };
  for (int64_t j = 0; j < c; ++j) sums[j] = 0, products[j] = 0;
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    const Row<S> x0 = row(r), x1 = row(r + 1), g0 = gradient(r), g1 = gradient(r + 1);
    for (int64_t j = 0; j < c; ++j) {
      sums[j] += g0[j] + g1[j];
      products[j] += g0[j] * (x0[j] - mean[j]) + g1[j] * (x1[j] - mean[j]);
    }
  }
  for (; r < rows; ++r) {
    for (int64_t j = 0; j < c; ++j) {
      sums[j] += gradient(r)[j];
      products[j] += gradient(r)[j] * (row(r)[j] - mean[j]);
    }
  }
  for (int64_t j = 0; j < c; ++j) products[j] *= scale[j];
}

template <class S, class T = Computed<S>>
void gradient_sums(const S* dy, const S* x, const T* mean, const T* scale, int64_t rows,
                   int64_t stride, int64_t x_stride, int64_t c, T* sums, T* products) {
  with_channels(c, [&](int64_t first, auto channels) {
    gradient_sums_of(dy + first, x + first, mean + first, scale + first, rows, stride, x_stride,
                     channels, sums + first, products + first);
  });
}

template <class T>
constexpr ChannelMicrokernelsOf<T> microkernels_of() {
  return {sum<T>, moments<T>, gradient_sums<T>};
}

}  // namespace

namespace TESSERA_ISA {
const ChannelMicrokernels channel_microkernels = {
    microkernels_of<float>(), microkernels_of<double>(), microkernels_of<bfloat16>()};
}  // namespace TESSERA_ISA

}  // namespace tessera
