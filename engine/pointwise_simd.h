// The microkernels of scalar programs, over elements side by side: one for each known program, which
// holds its registers in those of the machine, and an interpreter.
#pragma once

#include <cstdint>

#include "tessera/engine/pointwise_known.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

inline constexpr int64_t kPointwiseBlockBytes = 2048;  // of a register of the interpreter

template <class T>
inline constexpr int64_t kPointwiseBlock = kPointwiseBlockBytes / static_cast<int64_t>(sizeof(T));

// An instruction whose operands are inputs (k) or blocks (kMaxScalarRegisters + k); its result is a
// block.
struct InterpretedStep {
  ScalarOp op = ScalarOp::constant;
  uint8_t a = 0, b = 0, c = 0, to = 0;
  double value = 0;
};

// Blocks of constants have been filled in. The last step writes the result.
struct InterpretedProgram {
  const InterpretedStep* steps;
  int count, inputs, blocks;
};

template <class T>
struct PointwiseMicrokernelsOf {
  // out[i] = program(in[0][i], in[1][i], ..) for i < n. It may be one of the inputs.
  using Known = void (*)(const T* const* in, int64_t n, T* out);
  Known known[kKnownCount];
  // The same by interpretation. Blocks have kPointwiseBlock elements.
  void (*interpret)(const InterpretedProgram& program, T (*blocks)[kPointwiseBlock<T>],
                    const T* const* in, int64_t n, T* out);
};

struct PointwiseMicrokernels {
  PointwiseMicrokernelsOf<float> f32;
  PointwiseMicrokernelsOf<double> f64;
};
TESSERA_DECLARE_MICROKERNELS(PointwiseMicrokernels, pointwise_microkernels)

}  // namespace tessera
