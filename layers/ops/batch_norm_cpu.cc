#include "tessera/layers/ops/batch_norm_cpu.h"

#include <cmath>

namespace tessera {
namespace {

constexpr int64_t kChannels = 64;  // of one task

}  // namespace

template <class T>
void batch_norm_finalise(ThreadPool& pool, ChannelBlocks blocks, int64_t c, double eps,
                         const T* moments, T* mean, T* inverse_deviation, T* variance) {
  pool.parallel_for((c + kChannels - 1) / kChannels, [&](int64_t task) {
    const int64_t first = task * kChannels, channels = std::min(kChannels, c - first);
    double m[kChannels] = {}, m2[kChannels] = {};
    for (int64_t b = 0; b < blocks.count(); ++b) {
      const double before = static_cast<double>(blocks.begin(b));
      const double size = static_cast<double>(blocks.size(b));
      const double share = size / (before + size), weight = before * share;
      const T* from = moments + b * 2 * c + first;
      for (int64_t j = 0; j < channels; ++j) {
        const double delta = static_cast<double>(from[j]) - m[j];
        m[j] += delta * share;
        m2[j] += static_cast<double>(from[c + j]) + delta * delta * weight;
      }
    }
    const double n = static_cast<double>(blocks.rows);
    for (int64_t j = 0; j < channels; ++j) {
      mean[first + j] = static_cast<T>(m[j]);
      inverse_deviation[first + j] = static_cast<T>(1 / std::sqrt(m2[j] / n + eps));
      variance[first + j] = static_cast<T>(m2[j] / (n - 1));
    }
  });
}

template <class T>
void batch_norm_grad_finalise(ThreadPool& pool, int64_t blocks, int64_t rows, int64_t c,
                              const T* sums, const T* gamma, const T* inverse_deviation,
                              const BatchNormGradOut<T>& out) {
  pool.parallel_for((c + kChannels - 1) / kChannels, [&](int64_t task) {
    const int64_t first = task * kChannels, channels = std::min(kChannels, c - first);
    double dbeta[kChannels] = {}, dgamma[kChannels] = {};
    for (int64_t b = 0; b < blocks; ++b) {
      const T* from = sums + b * 2 * c + first;
      for (int64_t j = 0; j < channels; ++j) {
        dbeta[j] += static_cast<double>(from[j]);
        dgamma[j] += static_cast<double>(from[c + j]);
      }
    }
    const double n = static_cast<double>(rows);
    for (int64_t j = 0; j < channels; ++j) {
      const double inverse = static_cast<double>(inverse_deviation[first + j]);
      out.dbeta[first + j] = static_cast<T>(dbeta[j]);
      out.dgamma[first + j] = static_cast<T>(dgamma[j]);
      out.scale[first + j] = static_cast<T>(static_cast<double>(gamma[first + j]) * inverse);
      out.slope[first + j] = static_cast<T>(inverse * dgamma[j] / n);
      out.offset[first + j] = static_cast<T>(dbeta[j] / n);
    }
  });
}

#define TESSERA_BATCH_NORM(T)                                                                      \
  template void batch_norm_finalise(ThreadPool&, ChannelBlocks, int64_t, double, const T*, T*, T*, \
                                    T*);                                                           \
  template void batch_norm_grad_finalise(ThreadPool&, int64_t, int64_t, int64_t, const T*,         \
                                         const T*, const T*, const BatchNormGradOut<T>&);
TESSERA_BATCH_NORM(float)
TESSERA_BATCH_NORM(double)
#undef TESSERA_BATCH_NORM

}  // namespace tessera
