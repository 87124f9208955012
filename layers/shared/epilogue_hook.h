// Epilogue and Prologue: the callbacks by which a kernel on raw memory processes its result while
// it is in the cache, and reads an input that is computed during the read.
#pragma once

#include <cstdint>
#include <limits>

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

// The epilogue of most inference, for kernels that apply it to sums in registers:
//
//   y = min(max((sum + bias) + (residual + residual_bias), low), high)
//
// Biases are those of the channels; the residual is like the result. `low` is not -0, `high` is not
// 0 of either sign.
struct BiasActivation {
  const float* bias = nullptr;
  const float *residual = nullptr, *residual_bias = nullptr;  // each may be null
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  // Returns the one of the elements from `element` of the result on, which is of this channel.
  BiasActivation from(int64_t channel, int64_t element) const {
    if (bias == nullptr) return {};
    BiasActivation rest = *this;
    rest.bias += channel;
    if (residual) rest.residual += element;
    if (residual_bias) rest.residual_bias += channel;
    return rest;
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
