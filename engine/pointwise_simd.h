// The microkernels of scalar programs, over elements side by side: one for each precompiled
// program, which holds its registers in those of the machine, and an interpreter.
#pragma once

#include <cstdint>

#include "tessera/engine/scalar_program.h"
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

// Blocks of constants have been filled in. The last step writes the result; without steps that is
// input 0.
struct InterpretedProgram {
  const InterpretedStep* steps;
  int count, inputs, blocks;
};

// How compiled code reads an input: side by side as the output is written; the same in a ring,
// which is entered at `phase` and goes on for kPointwiseStep elements after its end where its
// period is no multiple of that; or kPointwiseStep elements again and again, all of them one value.
enum class PointwiseAccess : uint8_t { linear, cyclic, broadcast };
inline constexpr int64_t kPointwiseStep = 64;

struct PointwiseSegment {
  const float* const* in;
  const PointwiseAccess* access;
  int64_t phase, period;
};

// Compiled code is for float32 alone, as float64 is for checking gradients.
struct PointwiseMicrokernels {
  // Of n elements. `out` may be an input that is read side by side.
  using Precompiled = void (*)(const PointwiseSegment& from, int64_t n, float* out);
  const Precompiled* precompiled;  // for each of kPrecompiledPrograms
  // Any program by interpretation, every input being read side by side. Blocks have kPointwiseBlock
  // elements.
  template <class T>
  using Interpret = void (*)(const InterpretedProgram& program, T (*blocks)[kPointwiseBlock<T>],
                             const T* const* in, int64_t n, T* out);
  Interpret<float> f32;
  Interpret<double> f64;
};
TESSERA_DECLARE_MICROKERNELS(PointwiseMicrokernels, pointwise_microkernels)

}  // namespace tessera
