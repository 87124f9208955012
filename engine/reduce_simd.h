// Microkernels of reductions: sums of rows, and whether all numbers are finite.
#pragma once

#include <cstdint>

#include "tessera/engine/dtype.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

// sum[i] = sum over r < rows of x[r * inner + i] for i < inner. The order of the sum is the same
// for every instruction set.
struct SumRowsMicrokernels {
  void (*f32)(const float* x, int64_t rows, int64_t inner, float* sum);
  void (*f64)(const double* x, int64_t rows, int64_t inner, double* sum);
  void (*bf16)(const bfloat16* x, int64_t rows, int64_t inner, float* sum);
};

TESSERA_DECLARE_MICROKERNELS(SumRowsMicrokernels, sum_rows_microkernels)

// Return whether all of `count` numbers are finite.
struct FiniteMicrokernels {
  bool (*f32)(const float* x, int64_t count);
  bool (*f64)(const double* x, int64_t count);
};

TESSERA_DECLARE_MICROKERNELS(FiniteMicrokernels, finite_microkernels)

}  // namespace tessera
