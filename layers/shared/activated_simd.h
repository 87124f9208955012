// A BiasActivation, applied to registers. For *_simd.cc files compiled for AVX2 or more; everything
// here is local to the including file.
#pragma once

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
  static constexpr bool kStoresPairs = false;
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

// kNormal: no sum is a denormal number.
template <class T, bool kNormal = false>
struct Activated;
template <class T>
constexpr bool kActivates = false;

template <bool kNormal>
struct Activated<float, kNormal> {
  using Register = Vector<float>::Register;
  static constexpr bool kStoresPairs = false;
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
    if (after.residual) {
      Register x = load(after.residual + element);
      if (after.residual_bias) x = x + load(after.residual_bias);
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
template <bool kNormal>
struct Activated<bfloat16, kNormal> {
  using V = Vector<float>;
  using Register = V::Register;
  static constexpr bool kStoresPairs = true;  // two registers are stored at once
  struct OfChannels {
    Register scale = V::zero(), bias = V::zero();
    Register residual_scale = V::zero(), residual_bias = V::zero();
  };
  explicit Activated(const BiasActivation<bfloat16>& after)
      : after(after), bounds(after.low, after.high) {}
  template <class Load>
  inline __attribute__((always_inline)) OfChannels of_channels(const Load& load) const {
    OfChannels own;
    if (after.scale) own.scale = load(after.scale);
    if (after.bias) own.bias = bounds.of_bias(load(after.bias));
    if (after.residual_scale) own.residual_scale = load(after.residual_scale);
    if (after.residual_bias) own.residual_bias = load(after.residual_bias);
    return own;
  }
  template <class Load>
  inline __attribute__((always_inline)) Register operator()(Register sum, int64_t element,
                                                            const OfChannels& own,
                                                            const Load& load) const {
    if (after.bias == nullptr) return sum;
    Register y[] = {sum}, x[] = {V::zero()};
    if (after.residual) x[0] = load(after.residual + element);
    apply(y, x, &own);
    return y[0];
  }
#if defined(__AVX512BF16__)
  // Likewise for whole registers, next to each other, of which `element` is the first.
  inline __attribute__((always_inline)) void apply_to_two(Register (&y)[2], int64_t element,
                                                          const OfChannels (&own)[2]) const {
    if (after.bias == nullptr) return;
    Register x[] = {V::zero(), V::zero()};
    if (after.residual) V::load(after.residual + element, x[0], x[1]);
    apply(y, x, own);
  }
#endif
  bfloat16* place(const float*, int64_t element) const { return after.result + element; }
  const BiasActivation<bfloat16> after;
  Bounds bounds;

 private:
  template <int P>
  static void round_sums(Register (&y)[P]) {
#if defined(__AVX512BF16__)
    if constexpr (P == 2 && kNormal) return V::round_normal(y[0], y[1]);
    if constexpr (P == 1) {
      y[0] = widened(kNormal ? V::normal_halves(y[0]) : V::halves(y[0]));
      return;
    }
#endif
    round(y);
  }
  template <int P>
  static void round(Register (&y)[P]) {
#if defined(__AVX512BF16__)
    if constexpr (P == 2) return V::round(y[0], y[1]);
#endif
    for (Register& each : y) each = rounded(each);
  }

  // x: the residual. The store rounds last.
  template <int P>
  inline __attribute__((always_inline)) void apply(Register (&y)[P], Register (&x)[P],
                                                   const OfChannels* own) const {
    round_sums(y);
    for (int q = 0; q < P; ++q) {
      if (after.scale) y[q] = y[q] * own[q].scale;
      y[q] = y[q] + own[q].bias;
    }
    if (after.residual) {
      for (int q = 0; q < P; ++q) {
        if (after.residual_scale) x[q] = x[q] * own[q].residual_scale;
        if (after.residual_bias) x[q] = x[q] + own[q].residual_bias;
      }
      if (after.residual_bias) round(x);
      round(y);
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
