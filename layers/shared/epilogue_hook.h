// Epilogue and Prologue: the callbacks by which a kernel on raw memory processes its result while
// it is in the cache, and reads an input that is computed during the read.
#pragma once

#include <cstdint>

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
