#include "tessera/layers/shared/channel_reduce_simd.h"

namespace tessera {
namespace {

// Rows are read as they lie in memory and four at a time, so that the sums, which stay in the first
// cache, are loaded and stored once for four rows.

template <class T>
void sum(const T* x, int64_t rows, int64_t stride, int64_t c, T* __restrict sum) {
  for (int64_t j = 0; j < c; ++j) sum[j] = 0;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T *x0 = x + r * stride, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
    for (int64_t j = 0; j < c; ++j) sum[j] += (x0[j] + x1[j]) + (x2[j] + x3[j]);
  }
  for (; r < rows; ++r)
    for (int64_t j = 0; j < c; ++j) sum[j] += x[r * stride + j];
}

// Twice over the rows; the caller keeps them few enough to be in the cache the second time. The sum
// of the deviations is zero but for the rounding of the mean, which it puts right.
template <class T>
void moments(const T* x, int64_t rows, int64_t stride, int64_t c, T* __restrict mean,
             T* __restrict m2) {
  T rest[kMomentChannels];
  const T n = static_cast<T>(rows);
  sum(x, rows, stride, c, mean);
  for (int64_t j = 0; j < c; ++j) mean[j] /= n, m2[j] = 0, rest[j] = 0;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T *x0 = x + r * stride, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
    for (int64_t j = 0; j < c; ++j) {
      const T d0 = x0[j] - mean[j], d1 = x1[j] - mean[j];
      const T d2 = x2[j] - mean[j], d3 = x3[j] - mean[j];
      rest[j] += (d0 + d1) + (d2 + d3);
      m2[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3);
    }
  }
  for (; r < rows; ++r) {
    for (int64_t j = 0; j < c; ++j) {
      const T d = x[r * stride + j] - mean[j];
      rest[j] += d;
      m2[j] += d * d;
    }
  }
  for (int64_t j = 0; j < c; ++j) {
    const T error = rest[j] / n;
    mean[j] += error;
    m2[j] -= error * rest[j];
  }
}

template <class T>
void gradient_sums(const T* dy, const T* x, const T* __restrict mean, const T* __restrict scale,
                   int64_t rows, int64_t stride, int64_t c, T* __restrict sums,
                   T* __restrict products) {
  for (int64_t j = 0; j < c; ++j) sums[j] = 0, products[j] = 0;
  int64_t r = 0;
  for (; r + 2 <= rows; r += 2) {
    const T *x0 = x + r * stride, *x1 = x0 + stride;
    const T *g0 = dy + r * stride, *g1 = g0 + stride;
    for (int64_t j = 0; j < c; ++j) {
      sums[j] += g0[j] + g1[j];
      products[j] += g0[j] * (x0[j] - mean[j]) + g1[j] * (x1[j] - mean[j]);
    }
  }
  for (; r < rows; ++r) {
    for (int64_t j = 0; j < c; ++j) {
      sums[j] += dy[r * stride + j];
      products[j] += dy[r * stride + j] * (x[r * stride + j] - mean[j]);
    }
  }
  for (int64_t j = 0; j < c; ++j) products[j] *= scale[j];
}

template <class T>
constexpr ChannelMicrokernelsOf<T> microkernels_of() {
  return {sum<T>, moments<T>, gradient_sums<T>};
}

}  // namespace

namespace TESSERA_ISA {
const ChannelMicrokernels channel_microkernels = {microkernels_of<float>(),
                                                  microkernels_of<double>()};
}  // namespace TESSERA_ISA

}  // namespace tessera
