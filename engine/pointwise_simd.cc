#include "tessera/engine/pointwise_simd.h"

#include <array>
#include <cmath>

#include "tessera/engine/pointwise_functions_simd.h"
#include "tessera/engine/pointwise_known_simd.h"

namespace tessera {
namespace {

constexpr bool has_vectors(ScalarOp op) {
  return op != ScalarOp::pow && op != ScalarOp::log && op != ScalarOp::sqrt &&
         op != ScalarOp::tanh && op != ScalarOp::sin && op != ScalarOp::cos;
}

// One instruction on n elements; the result may overwrite an operand, element by element.
template <ScalarOp kOp>
[[gnu::noinline]] int64_t execute_registers(const float* const (&in)[3], double value, int64_t n,
                                            float* y) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Register x[3] = {};
    for (int k = 0; k < operand_count(kOp); ++k) x[k] = load(in[k] + i);
    store(y + i, evaluate<kOp>(x[0], x[1], x[2], filled(value)));
  }
  return i;
}

template <ScalarOp kOp, class T>
void execute(const InterpretedStep& step, const T* const* registers, T* y, int64_t n) {
  constexpr int kOperands = operand_count(kOp);
  const uint8_t sources[] = {step.a, step.b, step.c};
  const T* in[3] = {};
  for (int k = 0; k < kOperands; ++k) in[k] = registers[sources[k]];
  if constexpr (sizeof(T) == sizeof(float) && has_vectors(kOp)) {
    const int64_t i = execute_registers<kOp>(in, step.value, n, y);
    if (i == n) return;
    float rest[4][kLanes];
    for (int k = 0; k < kOperands; ++k) {
      copy_first(in[k] + i, n - i, kLanes, rest[k]);
      in[k] = rest[k];
    }
    execute_registers<kOp>(in, step.value, kLanes, rest[3]);
    for (int64_t j = 0; j < n - i; ++j) y[i + j] = rest[3][j];
  } else {
#if !defined(__clang__)  // which asks at run time
#pragma GCC ivdep
#endif
    for (int64_t i = 0; i < n; ++i)
      y[i] = evaluate<kOp, T>(kOperands > 0 ? in[0][i] : T(0), kOperands > 1 ? in[1][i] : T(0),
                              kOperands > 2 ? in[2][i] : T(0), static_cast<T>(step.value));
  }
}

template <class T, int... kOp>
constexpr auto all_instructions(std::integer_sequence<int, kOp...>) {
  using Execute = void (*)(const InterpretedStep&, const T* const*, T*, int64_t);
  return std::array<Execute, sizeof...(kOp)>{execute<static_cast<ScalarOp>(kOp), T>...};
}
template <class T>
constexpr auto kInstructions =
    all_instructions<T>(std::make_integer_sequence<int, static_cast<int>(ScalarOp::sigmoid) + 1>());

// Every instruction is one vector loop over a block that stays in the first-level cache, so the
// cost of interpreting is shared by some hundred elements.
template <class T>
void interpret(const InterpretedProgram& program, T (*blocks)[kPointwiseBlock<T>],
               const T* const* in, int64_t n, T* out) {
  const T* registers[2 * kMaxScalarRegisters];
  for (int k = 0; k < program.blocks; ++k) registers[kMaxScalarRegisters + k] = blocks[k];
  for (int64_t i = 0; i < n; i += kPointwiseBlock<T>) {
    const int64_t count = n - i < kPointwiseBlock<T> ? n - i : kPointwiseBlock<T>;
    for (int k = 0; k < program.inputs; ++k) registers[k] = in[k] + i;
    if (program.count == 0)
      for (int64_t j = 0; j < count; ++j) out[i + j] = in[0][i + j];
    for (int j = 0; j < program.count; ++j) {
      const InterpretedStep& step = program.steps[j];
      T* y = j + 1 == program.count ? out + i : blocks[step.to];
      kInstructions<T>[static_cast<size_t>(step.op)](step, registers, y, count);
    }
  }
}

template <int... kProgram>
constexpr auto all_known_code(std::integer_sequence<int, kProgram...>) {
  return std::array<PointwiseMicrokernels::Known, sizeof...(kProgram)>{run_known<kProgram>...};
}
constexpr auto kKnownCode = all_known_code(std::make_integer_sequence<int, kKnownPrograms.count>());

}  // namespace

namespace TESSERA_ISA {
extern const PointwiseMicrokernels pointwise_microkernels;
const PointwiseMicrokernels pointwise_microkernels = {kKnownCode.data(), interpret<float>,
                                                      interpret<double>};
}  // namespace TESSERA_ISA

}  // namespace tessera
