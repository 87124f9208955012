// exp, the sigmoid and erf of float32 from + - * / and bits alone, so that the compiler makes
// vector loops of them, with the same bits in every lane and for every instruction set. For
// pointwise_simd.cc alone: everything here is local to the file that includes it.
#pragma once

#include <cmath>
#include <cstdint>

namespace tessera {
namespace {

// c[0] + c[1] x + c[2] x^2 + ...
template <int N>
[[gnu::always_inline]] inline float polynomial(const float (&c)[N], float x) {
  float sum = c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

[[gnu::always_inline]] inline float power_of_2(uint32_t n) {  // -126 <= n <= 127
  return __builtin_bit_cast(float, (n + 127u) << 23);
}

// exp(x) = 2^n exp(r), n the whole number next to x / log(2). Within 1.5 units in the last place;
// infinite above 88.8, 0 below -104, NaN for NaN.
[[gnu::always_inline]] inline float exp_of(float x) {
  constexpr float kWhole = 12582912;  // 1.5 2^23: adding it rounds to whole numbers
  constexpr float kLog2High = 0.693359375f, kLog2Low = -2.12194440e-4f;
  // (exp(r) - 1 - r) / r^2 for |r| <= 0.35, within 3.3e-9 of exp(r)
  constexpr float kRest[] = {0.49999993f, 0.16666515f, 0.041668457f, 0.0083694188f, 0.0013813143f};
  x = x > 89 ? 89 : x;
  x = x < -104 ? -104 : x;
  const float shifted = x * 1.44269504f + kWhole, n = shifted - kWhole;
  const float r = (x - n * kLog2High) - n * kLog2Low;
  const float e = r * r * polynomial(kRest, r) + r + 1;
  // In two steps, as 2^n alone may be no normal number.
  const auto whole = __builtin_bit_cast(uint32_t, shifted) - __builtin_bit_cast(uint32_t, kWhole);
  const auto half = static_cast<uint32_t>(static_cast<int32_t>(whole) >> 1);
  return e * power_of_2(half) * power_of_2(whole - half);
}

// Within 3 units; 0 where it would be no normal number.
[[gnu::always_inline]] inline float sigmoid_of(float x) { return 1 / (1 + exp_of(-x)); }

// Within 3 units in the last place. Below 1 in size x times a polynomial of x^2, beyond 1 -
// exp(-x^2) times one of x; from 4 on that is 1.
[[gnu::always_inline]] inline float erf_of(float x) {
  constexpr float kNear[] = {1.1283791f,    -0.37612623f,    0.11283565f,   -0.026852882f,
                             0.0051863836f, -0.00079916173f, 7.7876975e-05f};
  constexpr float kFar[] = {0.21081123f,   -0.074269144f,  0.025170140f,   -0.0080288756f,
                            0.0014127259f, -0.0025184104f, -0.0010613018f, -0.00043609866f};
  const float size = x < 0 ? -x : x, square = x * x;
  const float far = 1 - exp_of(-square) * polynomial(kFar, (size > 4 ? 4 : size) - 2.5f);
  return size < 1 ? x * polynomial(kNear, square) : x < 0 ? -far : far;
}

// float64 is for checking gradients.
inline double exp_of(double x) { return std::exp(x); }
inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
inline double erf_of(double x) { return std::erf(x); }

}  // namespace
}  // namespace tessera
