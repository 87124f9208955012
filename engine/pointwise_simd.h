// The microkernels of scalar programs on contiguous elements: one for each precompiled program,
// which keeps its values in machine registers, and an interpreter.
#pragma once

#include <cstdint>

#include "tessera/engine/dtype.h"
#include "tessera/engine/scalar_program.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

inline constexpr int64_t kPointwiseBlockBytes = 2048;  // for each register of the interpreter

template <class T>
inline constexpr int64_t kPointwiseBlock = kPointwiseBlockBytes / static_cast<int64_t>(sizeof(T));

// An instruction. Operands are inputs (k) or blocks (kMaxScalarRegisters + k); the result is a
// block.
struct InterpretedStep {
  ScalarOp op = ScalarOp::constant;
  uint8_t a = 0, b = 0, c = 0, to = 0;
  double value = 0;
};

// Requires that blocks of constants are filled. The last step writes the result; without steps the
// result is input 0.
struct InterpretedProgram {
  const InterpretedStep* steps;
  int count, inputs, blocks;
};

// How a segment reads an input: linear, at the index of the output; cyclic, from `phase` on,
// padded by kPointwiseStep elements if its period is no multiple of that; or broadcast, always the
// same kPointwiseStep elements, which have one value.
enum class PointwiseAccess : uint8_t { linear, cyclic, broadcast };
inline constexpr int64_t kPointwiseStep = 64;

// The numbers in memory: float32, bfloat16, or float32 that is rounded to bfloat16 as it is read or
// written.
enum class PointwiseNumbers : uint8_t { f32, bf16, rounded };

// The code of a precompiled program. Each function computes the whole steps in n elements and
// returns their number; element i reads input k at i & mask[k]. `out` may be an input whose mask is
// -1.
struct PrecompiledCode {
  using Steps = int64_t (*)(const void* const* in, const int64_t* mask,
                            const PointwiseNumbers* numbers, PointwiseNumbers result, int64_t n,
                            void* out);
  int step, half_step;   // elements, at most kPointwiseStep
  Steps linear, masked;  // float32; all masks of `linear` are -1
  // Converts numbers of bfloat16 in machine registers; null for programs that are not
  // is_for_bfloat16(), and without vectors of 32 bytes.
  Steps half;
};

// Compiled code is float32 only, as float64 is for checking gradients.
struct PointwiseMicrokernels {
  const PrecompiledCode* precompiled;  // for each of kPrecompiledPrograms
  // Interprets any program; all inputs have linear access. Blocks have kPointwiseBlock elements.
  template <class T>
  using Interpret = void (*)(const InterpretedProgram& program, T (*blocks)[kPointwiseBlock<T>],
                             const T* const* in, int64_t n, T* out);
  Interpret<float> f32;
  Interpret<double> f64;
};
TESSERA_DECLARE_MICROKERNELS(PointwiseMicrokernels, pointwise_microkernels)

}  // namespace tessera
