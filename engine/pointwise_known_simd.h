// Compiled code for the known programs, for pointwise_simd.cc alone: everything here is local to the
// file that includes it.
#pragma once

#include <cstring>
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

template <class T>
struct Wide {
  using Register __attribute__((vector_size(kVectorBytes))) = T;
  using Unaligned __attribute__((vector_size(kVectorBytes), aligned(alignof(T)), may_alias)) = T;
  static constexpr int kLanes = kVectorBytes / sizeof(T);
  static Register load(const T* p) { return *reinterpret_cast<const Unaligned*>(p); }
  static void store(T* p, Register v) { *reinterpret_cast<Unaligned*>(p) = v; }
  // The first `count` lanes only, 0 < count < kLanes.
#if defined(__AVX512F__)
  static Register load_first(const T* p, int64_t count) {
    const unsigned first = (1u << count) - 1;
    if constexpr (sizeof(T) == sizeof(float))
      return _mm512_maskz_loadu_ps(static_cast<__mmask16>(first), p);
    else
      return _mm512_maskz_loadu_pd(static_cast<__mmask8>(first), p);
  }
  static void store_first(T* p, Register v, int64_t count) {
    const unsigned first = (1u << count) - 1;
    if constexpr (sizeof(T) == sizeof(float))
      _mm512_mask_storeu_ps(p, static_cast<__mmask16>(first), v);
    else
      _mm512_mask_storeu_pd(p, static_cast<__mmask8>(first), v);
  }
#else
  static Register load_first(const T* p, int64_t count) {
    T lanes[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
    return load(lanes);
  }
  static void store_first(T* p, Register v, int64_t count) {
    for (int64_t i = 0; i < count; ++i) p[i] = v[i];
  }
#endif
};

// As the interpreter computes it, in every lane.
template <ScalarOp kOp, class V>
[[gnu::always_inline]] inline V evaluate(V a, V b, V c, V value) {
  const V zero{}, one = zero + 1;
  if constexpr (kOp == ScalarOp::constant) return value;
  if constexpr (kOp == ScalarOp::add) return a + b;
  if constexpr (kOp == ScalarOp::sub) return a - b;
  if constexpr (kOp == ScalarOp::mul) return a * b;
  if constexpr (kOp == ScalarOp::div) return a / b;
  if constexpr (kOp == ScalarOp::max) return a <= b ? b : a;
  if constexpr (kOp == ScalarOp::min) return a >= b ? b : a;
  if constexpr (kOp == ScalarOp::greater) return a > b ? one : zero;
  if constexpr (kOp == ScalarOp::select) return a != zero ? b : c;
  if constexpr (kOp == ScalarOp::neg) return -a;
  if constexpr (kOp == ScalarOp::abs) return a < zero ? -a : a;
}

// What has no vector instruction is left to the interpreter.
constexpr bool is_arithmetic(const KnownProgram& program) {
  for (int j = 0; j < program.length; ++j)
    switch (program.code[j].op) {
      case ScalarOp::pow:
      case ScalarOp::exp:
      case ScalarOp::log:
      case ScalarOp::sqrt:
      case ScalarOp::tanh:
      case ScalarOp::erf:
      case ScalarOp::sigmoid:
        return false;
      default:
        break;
    }
  return true;
}

// The program on one register of elements; Load::load(x[k]) reads input k.
template <int kProgram, class T, class Load>
[[gnu::always_inline]] inline typename Wide<T>::Register compute(
    const T* const (&x)[kKnownPrograms[kProgram].inputs], int64_t at, const Load& load) {
  constexpr KnownProgram program = kKnownPrograms[kProgram];
  using V = typename Wide<T>::Register;
  V r[program.inputs + program.length];
  for (int k = 0; k < program.inputs; ++k) r[k] = load(x[k] + at);
  [&]<int... J>(std::integer_sequence<int, J...>) __attribute__((always_inline)) {
    ((r[program.inputs + J] = evaluate<program.code[J].op>(
          r[program.code[J].a], r[program.code[J].b], r[program.code[J].c],
          V{} + static_cast<T>(program.code[J].value))),
     ...);
  }
  (std::make_integer_sequence<int, program.length>());
  return r[program.inputs + program.length - 1];
}

// n elements in which no ring ends. Nothing is stored but the result, as what waits to be stored is
// what bounds how much of it is on its way to memory. kStays: some inputs are one value.
template <int kProgram, bool kStays, class T, int kInputs>
[[gnu::always_inline]] inline void run_turn(const T* const (&in)[kInputs],
                                            const PointwiseMove* moves, int64_t n, T* out) {
  using W = Wide<T>;
  constexpr int kLanes = W::kLanes, kTogether = kUnroll * kLanes;
  const auto load = [](const T* p) __attribute__((always_inline)) { return W::load(p); };
  int64_t mask[kInputs];
  for (int k = 0; k < kInputs; ++k) mask[k] = moves[k] == PointwiseMove::nowhere ? 0 : -1;
  const T* x[kInputs];
  int64_t i = 0;
  const auto seek = [&]() __attribute__((always_inline)) {
    for (int k = 0; k < kInputs; ++k) x[k] = in[k] + (kStays ? i & mask[k] : i);
  };
  for (; i + kTogether <= n; i += kTogether) {
    seek();
    typename W::Register y[kUnroll];
    for (int u = 0; u < kUnroll; ++u) y[u] = compute<kProgram>(x, u * kLanes, load);
    for (int u = 0; u < kUnroll; ++u) W::store(out + i + u * kLanes, y[u]);
  }
  if (i == n) return;
  seek();
  out += i, n -= i, i = 0;
  for (; i + kLanes <= n; i += kLanes) W::store(out + i, compute<kProgram>(x, i, load));
  if (i == n) return;
  const auto y = compute<kProgram>(
      x, i, [&](const T* p) __attribute__((always_inline)) { return W::load_first(p, n - i); });
  W::store_first(out + i, y, n - i);
}

template <int kProgram, bool kStays, class T>
void run_turns(const PointwiseStretch<T>& from, int64_t n, T* out) {
  constexpr int kInputs = kKnownPrograms[kProgram].inputs;
  int64_t phase = from.phase;
  for (int64_t done = 0; done < n;) {
    int64_t turn = (from.period - phase + kPointwiseStep - 1) / kPointwiseStep * kPointwiseStep;
    if (turn > n - done) turn = n - done;
    const int64_t at[] = {done, phase, 0};  // of each PointwiseMove
    const T* in[kInputs];
    for (int k = 0; k < kInputs; ++k) in[k] = from.in[k] + at[static_cast<int>(from.moves[k])];
    run_turn<kProgram, kStays>(in, from.moves, turn, out + done);
    done += turn, phase += turn - from.period;
  }
}

template <int kProgram, class T>
void run_known(const PointwiseStretch<T>& from, int64_t n, T* out) {
  bool stays = false;
  for (int k = 0; k < kKnownPrograms[kProgram].inputs; ++k)
    stays |= from.moves[k] == PointwiseMove::nowhere;
  stays ? run_turns<kProgram, true>(from, n, out) : run_turns<kProgram, false>(from, n, out);
}

template <int kProgram, class T>
constexpr typename PointwiseMicrokernelsOf<T>::Known known_code() {
  if constexpr (is_arithmetic(kKnownPrograms[kProgram])) return run_known<kProgram, T>;
  return nullptr;
}

}  // namespace
}  // namespace tessera
