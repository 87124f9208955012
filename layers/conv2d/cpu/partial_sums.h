// Reduces partial sums of a filter's gradient, [run][weight], in the order of the runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tessera/runtime/integers.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

inline constexpr int64_t kFoldShare = 4096;  // weights of a task

template <class T>
void reduce_partials(ThreadPool& pool, int64_t runs, int64_t weights, const T* partial, T* df) {
  pool.parallel_for(ceil_div(weights, kFoldShare), [&](int64_t task) {
    const int64_t begin = task * kFoldShare, end = std::min(weights, begin + kFoldShare);
    std::memcpy(df + begin, partial + begin, (end - begin) * sizeof(T));
    for (int64_t r = 1; r < runs; ++r)
      for (int64_t i = begin; i < end; ++i) df[i] += partial[r * weights + i];
  });
}

// Reduces the partial sums of depthwise filters, [run][tap][channel], to df [channel][tap].
template <class T>
void reduce_depthwise(ThreadPool& pool, int64_t runs, int64_t taps, int64_t channels,
                      const T* partial, T* df) {
  const int64_t weights = taps * channels;
  pool.parallel_for(ceil_div(weights, kFoldShare), [&](int64_t task) {
    const int64_t begin = task * kFoldShare, end = std::min(weights, begin + kFoldShare);
    for (int64_t i = begin; i < end; ++i) {
      T sum = 0;
      for (int64_t r = 0; r < runs; ++r)
        sum += partial[r * weights + i % taps * channels + i / taps];
      df[i] = sum;
    }
  });
}

}  // namespace tessera
