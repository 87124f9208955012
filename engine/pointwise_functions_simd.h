// Vectors of float32 of the machine's width, with exp, sigmoid and erf built from + - * / and bit
// operations, so that they give the same bits in every lane and on every instruction set. Only for
// pointwise_simd.cc: everything here is local to the including file.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace tessera {
namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

using Register __attribute__((vector_size(kVectorBytes))) = float;
using Integers __attribute__((vector_size(kVectorBytes))) = int32_t;
using Bits __attribute__((vector_size(kVectorBytes))) = uint32_t;
using Unaligned __attribute__((vector_size(kVectorBytes), aligned(alignof(float)), may_alias)) =
    float;
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(float));

// Keeps -0.
[[gnu::always_inline]] inline Register filled(double value) {
  return static_cast<float>(value) - Register{};
}
Register load(const float* p) { return *reinterpret_cast<const Unaligned*>(p); }
void store(float* p, Register v) { *reinterpret_cast<Unaligned*>(p) = v; }

// Loads only the first `count` lanes, 0 < count < kLanes.
#if defined(__AVX512F__)
__mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }
Register load_first(const float* p, int64_t count) {
  return _mm512_maskz_loadu_ps(first_lanes(count), p);
}
#else
Register load_first(const float* p, int64_t count) {
  float lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = p[i];
  return load(lanes);
}
#endif
// Copies `count` elements, followed by zeros up to `whole`, a multiple of kLanes.
void copy_first(const float* x, int64_t count, int64_t whole, float* y) {
  for (int64_t i = 0; i < whole; i += kLanes)
    store(y + i, i + kLanes <= count ? load(x + i)
                 : i < count         ? load_first(x + i, count - i)
                                     : Register{});
}

// c[0] + c[1] x + c[2] x^2 + ...
template <int N>
[[gnu::always_inline]] inline Register polynomial(const float (&c)[N], Register x) {
  Register sum = Register{} + c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

[[gnu::always_inline]] inline Register power_of_2(Bits n) {  // -126 <= n <= 127
  return __builtin_bit_cast(Register, (n + 127u) << 23);
}

// exp(x) = 2^n exp(r), n the integer nearest to x / log(2). Within 1.5 units in the last place;
// infinite above 88.8, 0 below -104, NaN for NaN.
[[gnu::always_inline]] inline Register exp_of(Register x) {
  constexpr float kWhole = 12582912;  // 1.5 2^23: adding it rounds to an integer
  constexpr float kLog2High = 0.693359375f, kLog2Low = -2.12194440e-4f;
  // (exp(r) - 1 - r) / r^2 for |r| <= 0.35, within 3.3e-9 of exp(r)
  constexpr float kRest[] = {0.49999993f, 0.16666515f, 0.041668457f, 0.0083694188f, 0.0013813143f};
  const Register zero{};
  x = x > 89 ? zero + 89 : x;
  x = x < -104 ? zero - 104 : x;
  const Register shifted = x * 1.44269504f + kWhole, n = shifted - kWhole;
  const Register r = (x - n * kLog2High) - n * kLog2Low;
  const Register e = r * r * polynomial(kRest, r) + r + 1;
  // Multiplies in two steps, as 2^n alone may not be a normal number.
  const Bits whole =
      __builtin_bit_cast(Bits, shifted) - __builtin_bit_cast(uint32_t, float{kWhole});
  const Bits half = __builtin_bit_cast(Bits, __builtin_bit_cast(Integers, whole) >> 1);
  return e * power_of_2(half) * power_of_2(whole - half);
}

// Within 3 units in the last place; 0 if the result would be subnormal.
[[gnu::always_inline]] inline Register sigmoid_of(Register x) { return 1 / (1 + exp_of(-x)); }

// Within 3 units in the last place. For |x| < 1, x times a polynomial of x^2; else 1 - exp(-x^2)
// times a polynomial of x; 1 from 4 on.
[[gnu::always_inline]] inline Register erf_of(Register x) {
  constexpr float kNear[] = {1.1283791f,    -0.37612623f,    0.11283565f,   -0.026852882f,
                             0.0051863836f, -0.00079916173f, 7.7876975e-05f};
  constexpr float kFar[] = {0.21081123f,   -0.074269144f,  0.025170140f,   -0.0080288756f,
                            0.0014127259f, -0.0025184104f, -0.0010613018f, -0.00043609866f};
  const Register zero{}, size = x < 0 ? -x : x, square = x * x;
  const Register within = size > 4 ? zero + 4 : size;
  const Register far = 1 - exp_of(-square) * polynomial(kFar, within - 2.5f);
  const Register signed_far = x < 0 ? -far : far;
  return size < 1 ? x * polynomial(kNear, square) : signed_far;
}

// float64 is for checking gradients.
inline double exp_of(double x) { return std::exp(x); }
inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
inline double erf_of(double x) { return std::erf(x); }

}  // namespace
}  // namespace tessera
