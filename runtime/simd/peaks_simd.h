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
  // Adds `rounds` times products of pairs of bfloat16 (VDPBF16PS), twice `flops`, 0.5 to each sum.
  // Only for Isa::avx512_bf16; else null.
  float (*multiply_add_pairs)(int64_t rounds);
  void (*copy)(const float* from, float* to, int64_t count);
};
TESSERA_DECLARE_MICROKERNELS(PeakMicrokernels, peak_microkernels)

}  // namespace tessera
