// Epilogue and Prologue: the callbacks by which a kernel on raw memory processes its result while
// it is in the cache, and reads an input that is computed during the read.
#pragma once

#include <cstdint>
#include <limits>

#include "tessera/engine/dtype.h"

namespace tessera {

// Called on each contiguous range of the result once the range is final, on the thread that wrote
// it and while it is in the cache. Ranges are whole pixels (all channels), cover the result exactly
// once and are cut by the shape alone. `rows` points to element `first_element` of the result.
template <class T>
struct Epilogue {
  void (*apply)(void* context, T* rows, int64_t first_element, int64_t count) = nullptr;
  void* context = nullptr;
  // Calls apply(), if set.
  void operator()(T* rows, int64_t first_element, int64_t count) const {
    if (apply) apply(context, rows, first_element, count);
  }
};

// The epilogue of most inference, for kernels that apply it to sums in registers. In float32:
//
//   y = min(max((sum + bias) + (residual + residual_bias), low), high)
//
// In bfloat16, rounded to by R:
//
//   y = R(min(max(R(R(sum) scale + bias) + R(residual residual_scale + residual_bias), low), high))
//
// Scales and biases are those of the channels; the residual is like the result. Any may be null:
// the term or factor is missing then. `low` is not -0, `high` is not 0 of either sign.
template <class T>
struct BiasActivation {
  const float *scale = nullptr, *bias = nullptr;  // scales: bfloat16 only, with a bias
  const T* residual = nullptr;                    // requires a bias
  const float *residual_scale = nullptr, *residual_bias = nullptr;
  float low = -std::numeric_limits<float>::infinity();  // without a bias there are no bounds
  float high = std::numeric_limits<float>::infinity();
  T* result = nullptr;  // bfloat16: y; float32: null, y takes the place of the sums
  bool normal = false;  // bfloat16: set if biases_are_normal(), which saves checks
  bool is_set() const { return bias != nullptr || result != nullptr; }
  // Returns the one of the elements from `element` of the result on, which is of this channel.
  BiasActivation from(int64_t channel, int64_t element) const {
    BiasActivation rest = *this;
    for (const float** of_channels :
         {&rest.scale, &rest.bias, &rest.residual_scale, &rest.residual_bias})
      if (*of_channels) *of_channels += channel;
    if (residual) rest.residual += element;
    if (result) rest.result += element;
    return rest;
  }
  // Whether no sum with a bias and no bound is a denormal number. A bias b that is not smaller than
  // 2^-100 and an addend of half its size or more are multiples of 2^-124, and so is their sum.
  bool biases_are_normal(int64_t channels) const {
    const auto small = [](float x, float limit) { return x > -limit && x < limit; };
    int64_t count = (low != 0 && small(low, 0x1p-126f)) + small(high, 0x1p-126f);
    for (int64_t c = 0; bias && c < channels; ++c) count += small(bias[c], 0x1p-100f);
    return count == 0;
  }
};

// Writes elements [first_element, first_element + count) of the input to `to`, any number of times.
// Thread-safe. `second` is another full-size input that the program reads, which the kernel may
// prefetch; or null.
template <class T>
struct Prologue {
  void (*read)(void* context, T* to, int64_t first_element, int64_t count) = nullptr;
  void* context = nullptr;
  const T* second = nullptr;
  void operator()(T* to, int64_t first_element, int64_t count) const {
    read(context, to, first_element, count);
  }
};

}  // namespace tessera
