#include "tessera/engine/pointwise_simd.h"

#include <cmath>

#include "tessera/engine/pointwise_functions_simd.h"
#include "tessera/engine/pointwise_known_simd.h"

namespace tessera {
namespace {

// The result may overwrite one of its own inputs, element by element.
template <class T, class F>
void each(T* y, int64_t n, F f) {
#if !defined(__clang__)  // which asks at run time
#pragma GCC ivdep
#endif
  for (int64_t i = 0; i < n; ++i) y[i] = f(i);
}

// Of max and min: the choice is one instruction, which gives b if either is a NaN.
template <class T>
[[gnu::always_inline]] inline T unless_nan(T a, T chosen) {
  return a != a ? a : chosen;
}

template <class T>
void execute(const InterpretedStep& step, const T* const* registers, T* y, int64_t n) {
  const T *a = registers[step.a], *b = registers[step.b], *c = registers[step.c];
  switch (step.op) {
    case ScalarOp::constant:
      return each(y, n, [v = static_cast<T>(step.value)](int64_t) { return v; });
    case ScalarOp::add:
      return each(y, n, [=](int64_t i) { return a[i] + b[i]; });
    case ScalarOp::sub:
      return each(y, n, [=](int64_t i) { return a[i] - b[i]; });
    case ScalarOp::mul:
      return each(y, n, [=](int64_t i) { return a[i] * b[i]; });
    case ScalarOp::div:
      return each(y, n, [=](int64_t i) { return a[i] / b[i]; });
    case ScalarOp::max:
      return each(y, n, [=](int64_t i) { return unless_nan(a[i], a[i] > b[i] ? a[i] : b[i]); });
    case ScalarOp::min:
      return each(y, n, [=](int64_t i) { return unless_nan(a[i], a[i] < b[i] ? a[i] : b[i]); });
    case ScalarOp::pow:
      return each(y, n, [=](int64_t i) { return std::pow(a[i], b[i]); });
    case ScalarOp::greater:
      return each(y, n, [=](int64_t i) { return a[i] > b[i] ? T(1) : T(0); });
    case ScalarOp::less_equal:
      return each(y, n, [=](int64_t i) { return a[i] <= b[i] ? T(1) : T(0); });
    case ScalarOp::select:
      return each(y, n, [=](int64_t i) { return a[i] != T(0) ? b[i] : c[i]; });
    case ScalarOp::neg:
      return each(y, n, [=](int64_t i) { return -a[i]; });
    case ScalarOp::abs:
      return each(y, n, [=](int64_t i) { return a[i] < T(0) ? -a[i] : a[i]; });
    case ScalarOp::exp:
      return each(y, n, [=](int64_t i) { return exp_of(a[i]); });
    case ScalarOp::log:
      return each(y, n, [=](int64_t i) { return std::log(a[i]); });
    case ScalarOp::sqrt:
      return each(y, n, [=](int64_t i) { return std::sqrt(a[i]); });
    case ScalarOp::tanh:
      return each(y, n, [=](int64_t i) { return std::tanh(a[i]); });
    case ScalarOp::sin:
      return each(y, n, [=](int64_t i) { return std::sin(a[i]); });
    case ScalarOp::cos:
      return each(y, n, [=](int64_t i) { return std::cos(a[i]); });
    case ScalarOp::erf:
      return each(y, n, [=](int64_t i) { return erf_of(a[i]); });
    case ScalarOp::sigmoid:
      return each(y, n, [=](int64_t i) { return sigmoid_of(a[i]); });
  }
}

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
    if (program.count == 0) each(out + i, count, [x = in[0] + i](int64_t j) { return x[j]; });
    for (int j = 0; j < program.count; ++j) {
      const InterpretedStep& step = program.steps[j];
      T* y = j + 1 == program.count ? out + i : blocks[step.to];
      execute(step, registers, y, count);
    }
  }
}

template <int... kProgram>
constexpr PointwiseMicrokernels microkernels(std::integer_sequence<int, kProgram...>) {
  return {{known_code<kProgram>()...}, interpret<float>, interpret<double>};
}

}  // namespace

namespace TESSERA_ISA {
extern const PointwiseMicrokernels pointwise_microkernels;
const PointwiseMicrokernels pointwise_microkernels =
    microkernels(std::make_integer_sequence<int, kKnownCount>());
}  // namespace TESSERA_ISA

}  // namespace tessera
