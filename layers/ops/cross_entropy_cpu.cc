#include "tessera/layers/ops/cross_entropy_cpu.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {

namespace {

// Rows are shared out in groups worth a thread's while; every row is summed by itself, in order.
template <class F>
void for_rows(ThreadPool& pool, int64_t n, int64_t c, F&& row) {
  const int64_t group = std::max<int64_t>(1, 1024 / std::max<int64_t>(1, c));
  pool.parallel_for((n + group - 1) / group, [&](int64_t task) {
    for (int64_t i = task * group; i < std::min(n, (task + 1) * group); ++i) row(i);
  });
}

// log(sum_j exp(z[j])), safe for large z.
template <class T>
double log_sum_exp(const T* z, int64_t c) {
  T top = z[0];
  for (int64_t j = 1; j < c; ++j) top = std::max(top, z[j]);
  double sum = 0;
  for (int64_t j = 0; j < c; ++j) sum += std::exp(z[j] - top);
  return top + std::log(sum);
}

template <class T>
double row_loss(const CrossEntropyCase<T>& in, int64_t i) {
  const T* z = in.logits + i * in.c;
  double wanted = 0, all = 0, weight = 1;  // sums of t z, of z and of t
  if (in.labels != nullptr) {
    const int64_t label = in.labels[i];
    if (label < 0 || label >= in.c) return std::numeric_limits<double>::quiet_NaN();
    wanted = z[label];
  } else {
    const T* t = in.targets + i * in.c;
    weight = 0;
    for (int64_t j = 0; j < in.c; ++j) wanted += double{t[j]} * z[j], weight += t[j];
  }
  if (in.smoothing != 0) {
    for (int64_t j = 0; j < in.c; ++j) all += z[j];
  }
  const double s = in.smoothing;
  return ((1 - s) * weight + s) * log_sum_exp(z, in.c) - (1 - s) * wanted -
         s / static_cast<double>(in.c) * all;
}

}  // namespace

template <class T>
void cross_entropy_loss(ThreadPool& pool, const CrossEntropyCase<T>& in, T* loss, double* rows) {
  for_rows(pool, in.n, in.c, [&](int64_t i) { rows[i] = row_loss(in, i); });
  double sum = 0;
  for (int64_t i = 0; i < in.n; ++i) sum += rows[i];
  *loss = static_cast<T>(sum / static_cast<double>(in.n));
}

template <class T>
void cross_entropy_logits_grad(ThreadPool& pool, const CrossEntropyCase<T>& in, const T* d_loss,
                               T* d_logits) {
  const double scale = *d_loss / static_cast<double>(in.n);
  const double s = in.smoothing, floor = s / static_cast<double>(in.c);
  for_rows(pool, in.n, in.c, [&](int64_t i) {
    const T* z = in.logits + i * in.c;
    T* dz = d_logits + i * in.c;
    const double log_sum = log_sum_exp(z, in.c);
    if (in.labels != nullptr) {
      const int64_t label = in.labels[i];
      const bool known = label >= 0 && label < in.c;
      const double factor = known ? scale : std::numeric_limits<double>::quiet_NaN();
      for (int64_t j = 0; j < in.c; ++j) {
        const double t = (j == label ? 1 - s : 0) + floor;
        dz[j] = static_cast<T>(factor * (std::exp(static_cast<T>(z[j] - log_sum)) - t));
      }
      return;
    }
    const T* t = in.targets + i * in.c;
    double weight = 0;
    for (int64_t j = 0; j < in.c; ++j) weight += t[j];
    weight = (1 - s) * weight + s;
    for (int64_t j = 0; j < in.c; ++j) {
      const double p = std::exp(static_cast<T>(z[j] - log_sum));
      dz[j] = static_cast<T>(scale * (weight * p - (1 - s) * t[j] - floor));
    }
  });
}

template <class T>
void cross_entropy_targets_grad(ThreadPool& pool, const CrossEntropyCase<T>& in, const T* d_loss,
                                T* d_targets) {
  const double scale = (1 - in.smoothing) * *d_loss / static_cast<double>(in.n);
  for_rows(pool, in.n, in.c, [&](int64_t i) {
    const T* z = in.logits + i * in.c;
    const double log_sum = log_sum_exp(z, in.c);
    for (int64_t j = 0; j < in.c; ++j) {
      d_targets[i * in.c + j] = static_cast<T>(scale * (log_sum - z[j]));
    }
  });
}

#define TESSERA_INSTANTIATE(T)                                                                    \
  template void cross_entropy_loss(ThreadPool&, const CrossEntropyCase<T>&, T*, double*);         \
  template void cross_entropy_logits_grad(ThreadPool&, const CrossEntropyCase<T>&, const T*, T*); \
  template void cross_entropy_targets_grad(ThreadPool&, const CrossEntropyCase<T>&, const T*, T*);
TESSERA_INSTANTIATE(float)
TESSERA_INSTANTIATE(double)
#undef TESSERA_INSTANTIATE

}  // namespace tessera
