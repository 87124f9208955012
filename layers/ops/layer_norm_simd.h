// Microkernels of layer norm: sums along and across rows. x and dy are consecutive rows of c
// channels; mean and inverse have one value for each row.
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

template <class T>
struct LayerNormMicrokernelsOf {
  // Computes the mean and the variance (over c) of each row.
  void (*moments)(const T* x, int64_t rows, int64_t c, T* mean, T* variance);
  // Computes for each row the means over c of dy gamma and of dy gamma xhat.
  void (*gradient_means)(const T* dy, const T* x, const T* gamma, const T* mean, const T* inverse,
                         int64_t rows, int64_t c, T* first, T* second);
  // Computes for each channel the sums over rows of dy and of dy xhat; rows are `stride` apart.
  void (*gradient_sums)(const T* dy, const T* x, const T* mean, const T* inverse, int64_t rows,
                        int64_t stride, int64_t c, T* sums, T* products);
};

struct LayerNormMicrokernels {
  LayerNormMicrokernelsOf<float> f32;
  LayerNormMicrokernelsOf<double> f64;
};

TESSERA_DECLARE_MICROKERNELS(LayerNormMicrokernels, layer_norm_microkernels)

}  // namespace tessera
