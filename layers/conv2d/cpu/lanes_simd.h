// Microkernels of convolutions with vectors across images or the columns of one: lane i of every
// vector belongs to image i of a group of as many images as lanes, or to column i from the vector's
// first one on. A vector has kWideLanes<T> lanes.
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

// A row of outputs: y[j][q] = sum over the tap rows u, taps v and k of
//   x[u * x_row + v * x_tap + j * x_next + k * x_channel] *
//   f[((u * taps + v) * depth + k) * outputs + q]
// Tap v of output j is in column j * step + v * spacing + base of the image, which has `width`
// columns; x has zeros around the image, less than a tile wide. All taps count if step and spacing
// are 0.
template <class T>
struct LanesRow {
  const T* x;
  int64_t x_row, x_tap, x_next, x_channel;
  int64_t first_tap_row, last_tap_row, taps, depth;
  int64_t step, spacing, base, width;
  const T* f;
  int64_t outputs, vectors;  // q < outputs, j < vectors
  T* y;                      // output (j, 0) is at y + j * y_next
  int64_t y_next;
};

// sum[q * sum_filter + t lanes] += sum over lines i and vectors j of
//   dy[i * dy_line + j * dy_next + q lanes] * x[i * x_line + j * x_next + offsets[t]]
template <class T>
struct LanesOuter {
  const T* x;
  int64_t x_line, x_next;
  const int64_t* offsets;
  int taps;  // up to `max_taps`
  const T* dy;
  int64_t dy_line, dy_next;
  int filters;  // up to `max_filters`
  int64_t lines, vectors;
  T* sum;
  int64_t sum_filter;
};

template <class T>
struct LanesMicrokernelsOf {
  int max_taps, max_filters;
  void (*row)(const LanesRow<T>&);
  void (*outer)(const LanesOuter<T>&);
  // to[e * next + i] = from[i * stride + e] for i < used, zero for the other lanes
  void (*gather)(const T* from, int64_t stride, int used, int64_t elements, T* to, int64_t next);
  // to[i * stride + e] = from[e lanes + i] for i < used
  void (*scatter)(const T* from, int64_t stride, int used, int64_t elements, T* to);
  // to[e] = sum over i of from[e lanes + i]
  void (*reduce)(const T* from, int64_t elements, T* to);
};

struct LanesMicrokernels {
  LanesMicrokernelsOf<float> f32;
  LanesMicrokernelsOf<double> f64;
};

TESSERA_DECLARE_AVX_MICROKERNELS(LanesMicrokernels, lanes_microkernels)

}  // namespace tessera
