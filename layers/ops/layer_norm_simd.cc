#include "tessera/layers/ops/layer_norm_simd.h"

namespace tessera {
namespace {

// The number of partial sums along a row, equal for every instruction set.
constexpr int kLanes = 16;

// Returns the sum over j < c of term(j).
template <class T, class F>
inline T sum_of(int64_t c, F term) {
  T part[kLanes] = {};
  int64_t j = 0;
  for (; j + kLanes <= c; j += kLanes)
    for (int k = 0; k < kLanes; ++k) part[k] += term(j + k);
  for (int k = 0; j + k < c; ++k) part[k] += term(j + k);
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) part[k] += part[k + half];
  return part[0];
}

template <class T>
void moments(const T* x, int64_t rows, int64_t c, T* mean, T* variance) {
  const T n = static_cast<T>(c);
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * c;
    const T rough = sum_of<T>(c, [=](int64_t j) { return row[j]; }) / n;
    const T rest = sum_of<T>(c, [=](int64_t j) { return row[j] - rough; }) / n;
    const T middle = rough + rest;
    mean[r] = middle;
    variance[r] = sum_of<T>(c,
                            [=](int64_t j) {
                              const T d = row[j] - middle;
                              return d * d;
                            }) /
                  n;
  }
}

template <class T>
void gradient_means(const T* dy, const T* x, const T* gamma, const T* mean, const T* inverse,
                    int64_t rows, int64_t c, T* first, T* second) {
  const T n = static_cast<T>(c);
  for (int64_t r = 0; r < rows; ++r) {
    const T *g = dy + r * c, *row = x + r * c;
    const T middle = mean[r];
    first[r] = sum_of<T>(c, [=](int64_t j) { return g[j] * gamma[j]; }) / n;
    second[r] = sum_of<T>(c, [=](int64_t j) { return g[j] * gamma[j] * (row[j] - middle); }) *
                inverse[r] / n;
  }
}

template <class T>
void gradient_sums(const T* dy, const T* x, const T* mean, const T* inverse, int64_t rows,
                   int64_t stride, int64_t c, T* __restrict sums, T* __restrict products) {
  for (int64_t j = 0; j < c; ++j) sums[j] = 0, products[j] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const T *g = dy + r * stride, *row = x + r * stride;
    const T middle = mean[r], scale = inverse[r];
    for (int64_t j = 0; j < c; ++j) {
      sums[j] += g[j];
      products[j] += g[j] * ((row[j] - middle) * scale);
    }
  }
}

template <class T>
constexpr LayerNormMicrokernelsOf<T> microkernels_of() {
  return {moments<T>, gradient_means<T>, gradient_sums<T>};
}

}  // namespace

namespace TESSERA_ISA {
const LayerNormMicrokernels layer_norm_microkernels = {microkernels_of<float>(),
                                                       microkernels_of<double>()};
}  // namespace TESSERA_ISA

}  // namespace tessera
