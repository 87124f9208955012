// The microkernel of pointwise: one scalar program over a contiguous range of elements.
#pragma once

#include <cstdint>

#include "tessera/engine/scalar_program.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

struct PointwiseRange {
  const Instruction* code;
  int instructions, inputs;
  const void* const* in;        // [inputs]
  const Broadcast* broadcasts;  // [inputs]
  int64_t total;                // elements of the whole output
  int64_t first, count;         // the range
  void* out;                    // where element `first` goes
};

struct PointwiseMicrokernels {
  void (*f32)(const PointwiseRange&);
  void (*f64)(const PointwiseRange&);
};
TESSERA_DECLARE_MICROKERNELS(PointwiseMicrokernels, pointwise_microkernels)

}  // namespace tessera
