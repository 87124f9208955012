// Microkernels of depthwise convolution, vectorised over the channels.
#pragma once

#include <cstdint>

#include "tessera/engine/dtype.h"
#include "tessera/layers/shared/epilogue_hook.h"
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

// The microkernels for 3x3 filters read images in place: a few columns at a time, with all channels
// of these in order. bfloat16 is read as float.

// The input of one or two rows of outputs. Output j of row r reads columns j * step + base + v of
// rows[r * step + u], tap rows u and taps v. Columns outside [0, width) and null rows are left out.
template <class T>
struct DepthwiseRows {
  const T* rows[5];
  int64_t width, base, channels, columns;  // columns: outputs of a row
  bool fetch_next;                         // the rows follow one another: prefetch the next ones
};

// out[r][j][k] = sum over u, v of x * f[tap row][tap][k]
template <class T>
struct DepthwiseProducts {
  DepthwiseRows<T> in;
  const Computed<T>* f;
  Computed<T>* out[2];
  int64_t out_column;       // elements from one output to the next
  BiasActivation<T> after;  // applied if set; requires `activates`
};

// sum[tap row][tap][k] += sum over r and j of x * dy[r][j][k]
template <class T>
struct DepthwiseSums {
  DepthwiseRows<T> in;
  const T* dy[2];
  Computed<T>* sum;
};

template <class T>
struct DepthwiseMicrokernelsOf {
  void (*gather)(const DepthwiseProduct<T>&);  // not for bfloat16
  void (*outer)(const DepthwiseOuter<T>&);     // not for bfloat16
  // For 3x3 filters, indexed by the step of the input, 1 or 2, minus 1. rows: rows of outputs, 1 or
  // 2.
  void (*products[2])(const DepthwiseProducts<T>&, int rows);
  void (*sums[2])(const DepthwiseSums<T>&, int rows);
  // Products of one row of outputs with step 1, indexed by tap rows - 1 and taps - 1.
  void (*products_of_taps[2][2])(const DepthwiseProducts<T>&);
  bool activates;  // whether products() apply a BiasActivation
};

struct DepthwiseMicrokernels {
  DepthwiseMicrokernelsOf<float> f32;
  DepthwiseMicrokernelsOf<double> f64;
  DepthwiseMicrokernelsOf<bfloat16> bf16;
};

TESSERA_DECLARE_BF16_MICROKERNELS(DepthwiseMicrokernels, depthwise_microkernels)

// Returns those of this processor's best instruction set.
template <class T>
const DepthwiseMicrokernelsOf<T>& depthwise() {
  return microkernels_for<T>(TESSERA_SELECT_BF16_MICROKERNELS(depthwise_microkernels));
}

}  // namespace tessera
