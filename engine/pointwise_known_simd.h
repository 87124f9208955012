// Compiled code for the known programs, for pointwise_simd.cc alone: everything here is local to
// the file that includes it.
#pragma once

#include <utility>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "tessera/engine/pointwise_simd.h"

namespace tessera {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64, kUnroll = 4;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32, kUnroll = 4;
#else
constexpr int kVectorBytes = 16, kUnroll = 4;
#endif

using Register __attribute__((vector_size(kVectorBytes))) = float;
using Unaligned __attribute__((vector_size(kVectorBytes), aligned(alignof(float)), may_alias)) =
    float;
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(float));

Register load(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
void store(float* p, Register v) { *reinterpret_cast<Unaligned*>(p) = v; }

// The first `count` lanes only, 0 < count < kLanes.
#if defined(__AVX512F__)
__mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }
Register load_first(const float* p, int64_t count) {
  return _mm512_maskz_loadu_ps(first_lanes(count), p);
}
void store_first(float* p, Register v, int64_t count) {
  _mm512_mask_storeu_ps(p, first_lanes(count), v);
}
#else
Register load_first(const float* p, int64_t count) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}
void store_first(float* p, Register v, int64_t count) {
  for (int64_t i = 0; i < count; ++i) p[i] = v[i];
}
#endif

// As the interpreter computes it, in every lane.
template <ScalarOp kOp>
[[gnu::always_inline]] inline Register evaluate(Register a, Register b, Register c,
                                                Register value) {
  const Register zero{}, one = zero + 1;
  if constexpr (kOp == ScalarOp::constant) return value;
  if constexpr (kOp == ScalarOp::add) return a + b;
  if constexpr (kOp == ScalarOp::sub) return a - b;
  if constexpr (kOp == ScalarOp::mul) return a * b;
  if constexpr (kOp == ScalarOp::div) return a / b;
  // The compiler drops the second comparison if b is a constant.
  if constexpr (kOp == ScalarOp::max) return (a <= b) | (b != b) ? b : a;
  if constexpr (kOp == ScalarOp::min) return (a >= b) | (b != b) ? b : a;
  if constexpr (kOp == ScalarOp::greater) return a > b ? one : zero;
  if constexpr (kOp == ScalarOp::less_equal) return a <= b ? one : zero;
  if constexpr (kOp == ScalarOp::select) return a != zero ? b : c;
  if constexpr (kOp == ScalarOp::neg) return -a;
  if constexpr (kOp == ScalarOp::abs) return a < zero ? -a : a;
}

// What has no vector instruction is left to the interpreter.
constexpr bool is_arithmetic(const KnownProgram& program) {
  for (int j = 0; j < program.length; ++j) switch (program.code[j].op) {
      case ScalarOp::pow:
      case ScalarOp::exp:
      case ScalarOp::log:
      case ScalarOp::sqrt:
      case ScalarOp::tanh:
      case ScalarOp::sin:
      case ScalarOp::cos:
      case ScalarOp::erf:
      case ScalarOp::sigmoid:
        return false;
      default:
        break;
    }
  return true;
}

// The program on one register of elements; read(p) loads it.
template <int kProgram, class Read>
[[gnu::always_inline]] inline Register compute(
    const float* const (&x)[kKnownPrograms[kProgram].inputs], int64_t at, const Read& read) {
  constexpr KnownProgram program = kKnownPrograms[kProgram];
  Register r[program.inputs + program.length];
  for (int k = 0; k < program.inputs; ++k) r[k] = read(x[k] + at);
  [&]<int... J>(std::integer_sequence<int, J...>) __attribute__((always_inline)) {
    ((r[program.inputs + J] = evaluate<program.code[J].op>(
          r[program.code[J].a], r[program.code[J].b], r[program.code[J].c],
          Register{} + static_cast<float>(program.code[J].value))),
     ...);
  }
  (std::make_integer_sequence<int, program.length>());
  return r[program.inputs + program.length - 1];
}

// n elements in which no ring ends. Nothing is stored but the result, as what waits to be stored is
// what bounds how much of it is on its way to memory. kStays: some inputs are one value.
template <int kProgram, bool kStays, int kInputs>
[[gnu::always_inline]] inline void run_turn(const float* const (&in)[kInputs],
                                            const PointwiseMove* moves, int64_t n, float* out) {
  constexpr int kTogether = kUnroll * kLanes;
  int64_t mask[kInputs];
  for (int k = 0; k < kInputs; ++k) mask[k] = moves[k] == PointwiseMove::nowhere ? 0 : -1;
  const float* x[kInputs];
  int64_t i = 0;
  const auto seek = [&]() __attribute__((always_inline)) {
    for (int k = 0; k < kInputs; ++k) x[k] = in[k] + (kStays ? i & mask[k] : i);
  };
  for (; i + kTogether <= n; i += kTogether) {
    seek();
    Register y[kUnroll];
    for (int u = 0; u < kUnroll; ++u) y[u] = compute<kProgram>(x, u * kLanes, load);
    for (int u = 0; u < kUnroll; ++u) store(out + i + u * kLanes, y[u]);
  }
  if (i == n) return;
  seek();
  out += i, n -= i, i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, compute<kProgram>(x, i, load));
  if (i == n) return;
  const Register y = compute<kProgram>(x, i, [&](const float* p) { return load_first(p, n - i); });
  store_first(out + i, y, n - i);
}

template <int kProgram, bool kStays>
void run_turns(const PointwiseStretch& from, int64_t n, float* out) {
  constexpr int kInputs = kKnownPrograms[kProgram].inputs;
  int64_t phase = from.phase;
  for (int64_t done = 0; done < n;) {
    int64_t turn = (from.period - phase + kPointwiseStep - 1) / kPointwiseStep * kPointwiseStep;
    if (turn > n - done) turn = n - done;
    const int64_t at[] = {done, phase, 0};  // of each PointwiseMove
    const float* in[kInputs];
    for (int k = 0; k < kInputs; ++k) in[k] = from.in[k] + at[static_cast<int>(from.moves[k])];
    run_turn<kProgram, kStays>(in, from.moves, turn, out + done);
    done += turn, phase += turn - from.period;
  }
}

template <int kProgram>
void run_known(const PointwiseStretch& from, int64_t n, float* out) {
  bool stays = false;
  for (int k = 0; k < kKnownPrograms[kProgram].inputs; ++k)
    stays |= from.moves[k] == PointwiseMove::nowhere;
  stays ? run_turns<kProgram, true>(from, n, out) : run_turns<kProgram, false>(from, n, out);
}

template <int kProgram>
constexpr PointwiseMicrokernels::Known known_code() {
  if constexpr (is_arithmetic(kKnownPrograms[kProgram])) return run_known<kProgram>;
  return nullptr;
}

}  // namespace
}  // namespace tessera
