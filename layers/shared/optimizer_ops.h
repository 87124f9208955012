// What the ops of optimizers share.
#pragma once

#include <algorithm>

#include "tessera/engine/op.h"

namespace tessera {

// The only element of a float32 or float64 buffer.
inline double read_scalar(const Buffer& buffer) {
  return buffer.spec.dtype == DType::f64 ? *buffer.as<double>() : double{*buffer.as<float>()};
}

// The weight decay of one parameter.
template <class Params>
double decay_of(const Params& params, const TensorSpec& parameter) {
  return params.decay_vectors || parameter.shape.rank() > 1 ? params.weight_decay : 0;
}

// Calls range(first, last) for blocks of [0, count), cut by the count alone.
template <class F>
void for_ranges(ThreadPool& pool, int64_t count, F&& range) {
  constexpr int64_t kBlock = 16384;
  pool.parallel_for((count + kBlock - 1) / kBlock, [&](int64_t block) {
    range(block * kBlock, std::min(count, (block + 1) * kBlock));
  });
}

}  // namespace tessera
