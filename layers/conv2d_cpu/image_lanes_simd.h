// Loops of convolutions whose vectors run across images: lane i of every vector belongs to image i
// of a group of as many images as a vector has lanes. "Lanes" are such vectors, one after the
// other.
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

// A row of outputs: y[j][q] = sum over the tap rows u, taps v and k of
//   x[u * x_row + v * x_tap + j * x_column + k lanes] * f[((u * taps + v) * depth + k) * outputs +
//   q]
// Output j's tap v lies in column j * step + v * spacing + base of the image, which is `width`
// wide; x holds zeros around it for what is less than a tile away.
template <class T>
struct ImageLanesRow {
  const T* x;
  int64_t x_row, x_tap, x_column;
  int64_t first_tap_row, last_tap_row, taps, depth;
  int64_t step, spacing, base, width;
  const T* f;
  int64_t outputs, columns;
  T* y;  // j's first output is y + j * y_column
  int64_t y_column;
};

// sum[q * sum_filter + t lanes] += sum over lines i and columns j of
//   dy[i * dy_line + j * dy_column + q lanes] * x[i * x_line + j * x_column + offsets[t]]
template <class T>
struct ImageLanesOuter {
  const T* x;
  int64_t x_line, x_column;
  const int64_t* offsets;
  int taps;  // up to `most_taps`
  const T* dy;
  int64_t dy_line, dy_column;
  int filters;  // up to `most_filters`
  int64_t lines, columns;
  T* sum;
  int64_t sum_filter;
};

template <class T>
struct ImageLanesMicrokernelsOf {
  int lanes, most_taps, most_filters;
  void (*row)(const ImageLanesRow<T>&);
  void (*outer)(const ImageLanesOuter<T>&);
  // to[e][i] = from[i * stride + e] for i < images, zero for the other lanes
  void (*gather)(const T* from, int64_t stride, int images, int64_t elements, T* to);
  // to[i * stride + e] = from[e][i] for i < images
  void (*scatter)(const T* from, int64_t stride, int images, int64_t elements, T* to);
  // to[e] = sum over i of from[e][i]
  void (*reduce)(const T* from, int64_t elements, T* to);
};

struct ImageLanesMicrokernels {
  ImageLanesMicrokernelsOf<float> f32;
  ImageLanesMicrokernelsOf<double> f64;
};

TESSERA_DECLARE_AVX_MICROKERNELS(ImageLanesMicrokernels, image_lanes_microkernels)

}  // namespace tessera
