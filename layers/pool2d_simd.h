// What pooling does to the channels of one pixel.
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

// The part of a window that lies in the image; `first` is its first pixel's position in the window,
// counted in rows of `kernel_w`.
struct PoolWindow {
  int64_t rows, columns, row_step;  // row_step: elements from one image row to the next
  int first, kernel_w;
};

template <class T>
struct PoolLeavesOf {
  // y[j] = the maximum over the window of x[.., j], positions[j] where it lies (unless null), j < c
  void (*max)(const T* x, const PoolWindow& window, int64_t c, T* y, uint8_t* positions);
  // dx[j] += dy[j] where positions[j] is `position`
  void (*add_where)(const T* dy, const uint8_t* positions, int position, int64_t c, T* dx);
  // y[j] += x[j] / divisor
  void (*add_quotient)(const T* x, T divisor, int64_t c, T* y);
  // y[j] = x[j] / divisor
  void (*divide)(const T* x, T divisor, int64_t c, T* y);
};

struct PoolLeaves {
  PoolLeavesOf<float> f32;
  PoolLeavesOf<double> f64;
};

TESSERA_DECLARE_LEAVES(PoolLeaves, pool_leaves)

}  // namespace tessera
