// Whether all of `count` numbers are finite.
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

struct FiniteMicrokernels {
  bool (*f32)(const float* x, int64_t count);
  bool (*f64)(const double* x, int64_t count);
};

TESSERA_DECLARE_MICROKERNELS(FiniteMicrokernels, finite_microkernels)

}  // namespace tessera
