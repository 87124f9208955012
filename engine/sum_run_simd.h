// Sums of rows.
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

// sum[i] = sum over r < rows of x[r * inner + i] for i < inner, in an order that is the same for
// every instruction set.
struct SumRowsMicrokernels {
  void (*f32)(const float* x, int64_t rows, int64_t inner, float* sum);
  void (*f64)(const double* x, int64_t rows, int64_t inner, double* sum);
};

TESSERA_DECLARE_MICROKERNELS(SumRowsMicrokernels, sum_rows_microkernels)

}  // namespace tessera
