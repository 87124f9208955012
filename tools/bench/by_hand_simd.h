// ByHand: scalar programs written as loops, for comparison in pointwise.cc. Full tensors have
// `rows` rows of c elements, the others one row.
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

struct ByHand {
  using Loop = void (*)(const float* const* in, int64_t rows, int64_t c, float* out);
  Loop bias, batch_norm_relu, batch_norm_add_relu, batch_norm_input_grad, relu_grad;
  void (*scale)(const float* x, const float* factor, int64_t rows, int64_t c, float* out);
  void (*copy)(const float* x, int64_t n, float* out);
  float (*sum)(const float* x, int64_t n);
};
TESSERA_DECLARE_MICROKERNELS(ByHand, by_hand)

}  // namespace tessera
