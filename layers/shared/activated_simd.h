// A BiasActivation, applied to registers. For *_simd.cc files compiled for AVX2 or more; everything
// here is local to the including file.
#pragma once

#include <type_traits>

#include "tessera/layers/shared/epilogue_hook.h"
#include "tessera/layers/shared/vector_simd.h"

namespace tessera {
namespace {

// min(max(x + bias, low), high) with the bits of ScalarOp::max and min; `low` is not -0, `high` not
// 0. If `low` is 0, max(-0, 0) must be 0: a bias that is not -0 makes no -0.
struct Bounds {
  using V = Vector<float>;
  Bounds(const float& low, const float& high) : low(V::fill(&low)), high(V::fill(&high)) {
    const float zero = low == 0 ? 0.0f : -0.0f;  // +0 turns -0 into 0, -0 changes nothing
    positive = V::fill(&zero);
  }
  V::Register of_bias(V::Register bias) const { return bias + positive; }
  V::Register operator()(V::Register y) const { return V::min(high, V::max(low, y)); }

  V::Register low, high, positive;
};

// Kernels store each register of sums after one of these: of_channels() loads what belongs to its
// channels, operator() returns the register that belongs at place(). `element` counts from the one
// that the BiasActivation begins with, which is at `sums`. load(p) loads the register of `p`, an
// array of the channels or a pixel.
struct Unchanged {
  static constexpr bool kRoundsPairs = false;
  template <class Load>
  int of_channels(const Load&) const {
    return 0;
  }
  template <class Sum, class Load>
  Sum operator()(Sum sum, int64_t, int, const Load&) const {
    return sum;
  }
  template <class T>
  T* place(T* sums, int64_t element) const {
    return sums + element;
  }
};

// The terms of a BiasActivation: known when a kernel is compiled, they cost no branches. kNormal:
// a bias, with which no sum is a denormal number.
enum class Terms { kNone, kNormal, kBias, kResidual, kResidualBias };

// kNormalSums: no sum is a denormal number.
template <class T, Terms kTerms, bool kNormalSums>
struct Activated;
template <class T>
constexpr bool kActivates = false;

// Calls run() with the Activated of `after`.
template <class T, bool kNormalSums, class Run>
inline __attribute__((always_inline)) void with_activated(const BiasActivation<T>& after,
                                                          const Run& run) {
  if constexpr (!std::is_same_v<T, float>) {  // without a bias float32 is Unchanged
    if (!after.bias) return run(Activated<T, Terms::kNone, kNormalSums>(after));
    if (after.normal && !after.residual)
      return run(Activated<T, Terms::kNormal, kNormalSums>(after));
  }
  if (!after.residual) return run(Activated<T, Terms::kBias, kNormalSums>(after));
  if (!after.residual_bias) return run(Activated<T, Terms::kResidual, kNormalSums>(after));
  run(Activated<T, Terms::kResidualBias, kNormalSums>(after));
}

template <Terms kTerms, bool kNormalSums>
struct Activated<float, kTerms, kNormalSums> {
  using Register = Vector<float>::Register;
  static constexpr bool kRoundsPairs = false;
  explicit Activated(const BiasActivation<float>& after)
      : after(after), bounds(after.low, after.high) {}
  template <class Load>
  inline __attribute__((always_inline)) Register of_channels(const Load& load) const {
    return bounds.of_bias(load(after.bias));
  }
  template <class Load>
  inline __attribute__((always_inline)) Register operator()(Register sum, int64_t element,
                                                            Register bias, const Load& load) const {
    sum = sum + bias;
    if constexpr (kTerms >= Terms::kResidual) {
      Register x = load(after.residual + element);
      if constexpr (kTerms == Terms::kResidualBias) x = x + load(after.residual_bias);
      sum = sum + x;
    }
    return bounds(sum);
  }
  float* place(float* sums, int64_t element) const { return sums + element; }
  const BiasActivation<float> after;  // a copy, which no store changes
  Bounds bounds;
};
template <>
constexpr bool kActivates<float> = true;

#if defined(__AVX512F__)
template <Terms kTerms, bool kNormalSums>
struct Activated<bfloat16, kTerms, kNormalSums> {
  using V = Vector<float>;
  using Register = V::Register;
  static constexpr bool kRoundsPairs = true;  // halves() is faster
  struct OfChannels {
    Register scale, bias, residual_scale, residual_bias;
  };
  explicit Activated(const BiasActivation<bfloat16>& after)
      : after(after), bounds(after.low, after.high) {}
  template <class Load>
  inline __attribute__((always_inline)) OfChannels of_channels(const Load& load) const {
    OfChannels own{};
    const float one = 1;
    const auto scale = [&](const float* of) { return of ? load(of) : V::fill(&one); };
    if constexpr (kTerms != Terms::kNone)
      own.scale = scale(after.scale), own.bias = bounds.of_bias(load(after.bias));
    if constexpr (kTerms == Terms::kResidualBias)
      own.residual_scale = scale(after.residual_scale),
      own.residual_bias = load(after.residual_bias);
    return own;
  }
  template <class Load>
  inline __attribute__((always_inline)) Register operator()(Register sum, int64_t element,
                                                            const OfChannels& own,
                                                            const Load& load) const {
    Register y[] = {sum}, x[] = {residual(element, load)};
    apply(y, x, &own);
    return y[0];
  }
  // Computes two registers, y, and returns them rounded. x: the residual.
  inline __attribute__((always_inline)) __m512i halves(Register (&y)[2], Register (&x)[2],
                                                       const OfChannels (&own)[2]) const {
    apply(y, x, own);
#if defined(__AVX512BF16__)
    if constexpr (kTerms == Terms::kNormal || (kTerms == Terms::kNone && kNormalSums))
      return V::normal_halves(y[0], y[1]);
#endif
    return V::halves(y[0], y[1]);
  }
  // Load the residual of a register, or of two next to each other, of which `element` is the first.
  template <class Load>
  inline __attribute__((always_inline)) Register residual(int64_t element, const Load& load) const {
    return kTerms >= Terms::kResidual ? load(after.residual + element) : V::zero();
  }
  inline __attribute__((always_inline)) void load_residual(int64_t element,
                                                           Register (&x)[2]) const {
    x[0] = x[1] = V::zero();
    if constexpr (kTerms >= Terms::kResidual) V::load(after.residual + element, x[0], x[1]);
  }
  bfloat16* place(const float*, int64_t element) const { return after.result + element; }
  const BiasActivation<bfloat16> after;
  Bounds bounds;

 private:
  // Rounds any numbers, or such as are not denormal.
  template <bool kNormal, int P>
  inline __attribute__((always_inline)) static void round(Register (&y)[P]) {
#if defined(__AVX512BF16__)
    if constexpr (P == 2)
      widen(kNormal ? V::normal_halves(y[0], y[1]) : V::halves(y[0], y[1]), y[0], y[1]);
    else
      y[0] = widened(kNormal ? V::normal_halves(y[0]) : V::halves(y[0]));
#else
    for (Register& each : y) each = rounded(each);
#endif
  }

  template <int P>
  inline __attribute__((always_inline)) void apply(Register (&y)[P], Register (&x)[P],
                                                   const OfChannels* own) const {
    if constexpr (kTerms == Terms::kNone) return;
    round<kNormalSums>(y);
    for (int q = 0; q < P; ++q) y[q] = y[q] * own[q].scale + own[q].bias;
    if constexpr (kTerms >= Terms::kResidual) {
      if constexpr (kTerms == Terms::kResidualBias) {
        for (int q = 0; q < P; ++q) x[q] = x[q] * own[q].residual_scale + own[q].residual_bias;
        round<false>(x);
      }
      round<false>(y);
      for (int q = 0; q < P; ++q)
        y[q] = y[q] + (x[q] + bounds.positive);  // rounding may have made -0
    }
    for (Register& each : y) each = bounds(each);
  }
};
template <>
constexpr bool kActivates<bfloat16> = true;
#endif

}  // namespace
}  // namespace tessera
