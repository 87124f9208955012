// Loops of depthwise convolution, vectorised over the channels.
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

// c[c_rows[i] + k] = sum over t < taps of a[a_rows[i] + offsets[t] + k] * f[t * channels + k]
template <class T>
struct DepthwiseProduct {
  const T* a;
  const int64_t* a_rows;
  int64_t rows;
  const int64_t* offsets;
  int64_t taps;
  const T* f;
  int64_t channels;
  T* c;
  const int64_t* c_rows;
};

// c[t * channels + k] (+)= sum over lines and points of a[(line * points + point) * channels + k]
//                          * b[line * b_line + point * b_point + offsets[t] + k]
template <class T>
struct DepthwiseOuter {
  const T* a;
  const T* b;
  int64_t b_line, b_point, lines, points;
  const int64_t* offsets;
  int64_t taps, channels;
  T* c;
  bool accumulate;
};

template <class T>
struct DepthwiseMicrokernelsOf {
  void (*gather)(const DepthwiseProduct<T>&);
  void (*outer)(const DepthwiseOuter<T>&);
};

struct DepthwiseMicrokernels {
  DepthwiseMicrokernelsOf<float> f32;
  DepthwiseMicrokernelsOf<double> f64;
};

TESSERA_DECLARE_AVX_MICROKERNELS(DepthwiseMicrokernels, depthwise_microkernels)

}  // namespace tessera
