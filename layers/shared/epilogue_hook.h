// What a kernel over raw memory calls on its result while it is in the cache, and to read an input
// that is computed on the way.
#pragma once

#include <cstdint>

namespace tessera {

// Called on each contiguous range of the result once it is final, on the thread that wrote it and
// while it is in the cache. Ranges are whole pixels (all channels), cover the result exactly once
// and are cut by the shape alone. `rows` points at element `first_element` of the result.
template <class T>
struct Epilogue {
  void (*apply)(void* context, T* rows, int64_t first_element, int64_t count) = nullptr;
  void* context = nullptr;
};

// Writes elements [first_element, first_element + count) of the input to `to`; from any thread, as
// often as the kernel likes. `second`: what it reads besides that is as large, which the kernel may
// fetch into the cache; or null.
template <class T>
struct Prologue {
  void (*read)(void* context, T* to, int64_t first_element, int64_t count) = nullptr;
  void* context = nullptr;
  const T* second = nullptr;
};

}  // namespace tessera
