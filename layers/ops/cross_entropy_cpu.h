// The CPU kernels of cross_entropy, over raw memory; labels or targets is null, the other is read.
#pragma once

#include <cstdint>

#include "tessera/runtime/thread_pool.h"

namespace tessera {

template <class T>
struct CrossEntropyCase {
  int64_t n, c;
  const T* logits;        // [n, c]
  const int32_t* labels;  // [n]
  const T* targets;       // [n, c]
  double smoothing;
};

// rows: scratch, n values.
template <class T>
void cross_entropy_loss(ThreadPool& pool, const CrossEntropyCase<T>& in, T* loss, double* rows);

// d_logits [n, c] may be the logits themselves; a row whose label is out of range becomes NaN.
template <class T>
void cross_entropy_logits_grad(ThreadPool& pool, const CrossEntropyCase<T>& in, const T* d_loss,
                               T* d_logits);

// d_targets [n, c] = (1 - s) / n (-log p) d_loss
template <class T>
void cross_entropy_targets_grad(ThreadPool& pool, const CrossEntropyCase<T>& in, const T* d_loss,
                                T* d_targets);

}  // namespace tessera
