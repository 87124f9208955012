// The leaf loops of measure_peaks() (runtime/machine_peaks.h).
#pragma once

#include <cstdint>

#include "tessera/runtime/simd/isa.h"

namespace tessera {

struct PeakMicrokernels {
  // Executes `rounds` times `flops` multiplications and additions in registers, x = x factor +
  // term, fused if the instruction set allows it. Returns a value that depends on all of them.
  float (*multiply_add)(int64_t rounds, float factor, float term);
  int64_t flops;
  void (*copy)(const float* from, float* to, int64_t count);
};
TESSERA_DECLARE_MICROKERNELS(PeakMicrokernels, peak_microkernels)

}  // namespace tessera
