// Microkernels of pooling: on the channels of one pixel, and for the maximum on a row of windows.
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

// One row of windows. `rows` rows of each window are inside the image; the first of them is row
// `first_row` of the window. A position in a window counts its pixels row by row.
struct PoolRow {
  int64_t rows, first_row;
  int64_t w, c, out_w;
  int64_t kernel_w, stride_w, pad_w;
  int64_t behind;  // readable elements after the rows of x, or of dy and positions
};

template <class T>
struct PoolMicrokernelsOf {
  // Computes the maxima y [out_w, c] of a row of windows over x [rows, w, c], and their positions
  // [out_w, c] (unless null).
  void (*max_row)(const T* x, const PoolRow& row, T* y, uint8_t* positions);
  // Computes dx [w, c] of one image row: the sum of dy over the windows that have their maximum
  // there. The image row is in `rows` rows of windows, dy and positions [rows, out_w, c]: it is row
  // `first_row` of the windows in the first, stride_h less in each following one.
  void (*max_row_grad)(const T* dy, const uint8_t* positions, const PoolRow& row, int64_t stride_h,
                       T* dx);
  // y[j] += x[j] / divisor
  void (*add_quotient)(const T* x, T divisor, int64_t c, T* y);
  // y[j] = x[j] / divisor
  void (*divide)(const T* x, T divisor, int64_t c, T* y);
};

struct PoolMicrokernels {
  PoolMicrokernelsOf<float> f32;
  PoolMicrokernelsOf<double> f64;
};

TESSERA_DECLARE_MICROKERNELS(PoolMicrokernels, pool_microkernels)

}  // namespace tessera
