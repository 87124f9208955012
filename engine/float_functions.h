// exp, log, tanh, pow, erf and sigmoid of float32, for one value or a vector, built from + - * /
// and bit operations: they give the same bits in every lane, with every instruction set and C
// library. Those that need more than float32's precision compute in float64. Errors are in units in
// the last place (ulp) of a normal result, the largest over all float32. Everything here is local
// to the including file, as the linker would merge what is compiled for several instruction sets.
//
// float64 is for checking gradients: the C library computes it.
#pragma once

#include <cmath>
#include <cstdint>

namespace tessera {
namespace {

// The types with the lanes of V, a float or a vector of floats.
template <class V>
struct LanesOf {
  using Integers __attribute__((vector_size(sizeof(V)))) = int32_t;
  using Bits __attribute__((vector_size(sizeof(V)))) = uint32_t;
  using Doubles __attribute__((vector_size(2 * sizeof(V)))) = double;
};
template <>
struct LanesOf<float> {
  using Integers = int32_t;
  using Bits = uint32_t;
  using Doubles = double;
};
template <class V>
using IntegersOf = typename LanesOf<V>::Integers;
template <class V>
using BitsOf = typename LanesOf<V>::Bits;
template <class V>
using DoublesOf = typename LanesOf<V>::Doubles;

template <class To, class From>
[[gnu::always_inline]] inline To converted(From x) {
  if constexpr (sizeof(From) <= sizeof(double) && sizeof(To) <= sizeof(double))
    return static_cast<To>(x);
  else
    return __builtin_convertvector(x, To);
}

// c[0] + c[1] x + c[2] x^2 + ...
template <class V, class C, int N>
[[gnu::always_inline]] inline V polynomial(const C (&c)[N], V x) {
  V sum = V{} + c[N - 1];
  for (int i = N - 2; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

// 2^n, -126 <= n <= 127
template <class V>
[[gnu::always_inline]] inline V power_of_2(BitsOf<V> n) {
  return __builtin_bit_cast(V, (n + 127u) << 23);
}

// 2^n x for -252 <= n <= 254; in two steps, as 2^n alone may not be a normal number
template <class V>
[[gnu::always_inline]] inline V scaled(V x, BitsOf<V> n) {
  const BitsOf<V> half = __builtin_bit_cast(BitsOf<V>, __builtin_bit_cast(IntegersOf<V>, n) >> 1);
  return x * power_of_2<V>(half) * power_of_2<V>(n - half);
}

// exp(x) = 2^n exp(r), n the integer nearest to x / log(2). Within 0.98 ulp; infinite above 88.8, 0
// below -104, NaN for NaN.
template <class V>
[[gnu::always_inline]] inline V exp_of(V x) {
  constexpr float kWhole = 12582912;  // 1.5 2^23: adding it rounds to an integer
  constexpr float kLog2High = 0.693359375f, kLog2Low = -2.12194440e-4f;
  // (exp(r) - 1 - r) / r^2 for |r| <= 0.35, within 3.3e-9 of exp(r)
  constexpr float kRest[] = {0.49999993f, 0.16666515f, 0.041668457f, 0.0083694188f, 0.0013813143f};
  const V zero{};
  x = x > 89 ? zero + 89 : x;
  x = x < -104 ? zero - 104 : x;
  const V shifted = x * 1.44269504f + kWhole, n = shifted - kWhole;
  const V r = (x - n * kLog2High) - n * kLog2Low;
  const V e = r * r * polynomial(kRest, r) + r + 1;
  return scaled(
      e, __builtin_bit_cast(BitsOf<V>, shifted) - __builtin_bit_cast(uint32_t, float{kWhole}));
}

// Within 2.5 ulp; 0 if the result would be subnormal.
template <class V>
[[gnu::always_inline]] inline V sigmoid_of(V x) {
  return 1 / (1 + exp_of(-x));
}

// For |x| < 1.07, x plus x times a polynomial of x^2, around 1/2; else 1 - exp(-x^2) times a
// polynomial of x; 1 from 4 on. Within 1.08 ulp.
template <class V>
[[gnu::always_inline]] inline V erf_of(V x) {
  constexpr float kNear[] = {-0.0345312618f, -0.28107217f,     0.0794100091f,   -0.0182840154f,
                             0.00348008261f, -0.000560745597f, 7.89407277e-05f, -9.85848328e-06f};
  constexpr float kFar[] = {0.21081123f,   -0.074269144f,  0.025170140f,   -0.0080288756f,
                            0.0014127259f, -0.0025184104f, -0.0010613018f, -0.00043609866f};
  const V zero{}, size = x < 0 ? -x : x, square = x * x;
  const V within = size > 4 ? zero + 4 : size;
  const V far = 1 - exp_of(-square) * polynomial(kFar, within - 2.5f);
  const V signed_far = x < 0 ? -far : far;
  return size < 1.07f ? x + x * polynomial(kNear, square - 0.5f) : signed_far;
}

// log(m) for sqrt(1/2) <= m <= sqrt(2): 2 (s + s^3 / 3 + s^5 / 5 + ...), s = (m - 1) / (m + 1).
// Within 2e-13 of log(m).
template <class D>
[[gnu::always_inline]] inline D log_near_1(D m) {
  constexpr double kOdd[] = {2.0, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15};
  const D s = (m - 1) / (m + 1);
  return s * polynomial(kOdd, s * s);
}

// exp(r) - 1 for |r| <= log(2) / 2, within 1e-11 of it
template <class D>
[[gnu::always_inline]] inline D exp_minus_1(D r) {
  constexpr double kRest[] = {1.0 / 2,   1.0 / 6,    1.0 / 24,    1.0 / 120,
                              1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880};
  return r + r * r * polynomial(kRest, r);
}

// The nearest integer, for |x| < 2^51.
template <class D>
[[gnu::always_inline]] inline D rounded(D x) {
  constexpr double kWhole = 6755399441055744;  // 1.5 2^52: the fraction has no place beside it
  return (x + kWhole) - kWhole;
}

constexpr double kLog2 = 0.69314718055994531, kLog2E = 1.4426950408889634;

// log(x) in float64 for positive, finite x: x = 2^k m. Subnormals are scaled up first.
template <class V>
[[gnu::always_inline]] inline DoublesOf<V> log_in_double(V x) {
  using B = BitsOf<V>;
  const auto tiny = x < 1.17549435e-38f;
  const B bits = __builtin_bit_cast(B, tiny ? x * 8388608.0f : x);
  // Subtracting the bits of sqrt(1/2) cuts between binades there.
  const B from = bits - 0x3f3504f3u,
          k = __builtin_bit_cast(B, __builtin_bit_cast(IntegersOf<V>, from) >> 23);
  const V m = __builtin_bit_cast(V, (from & 0x007fffffu) + 0x3f3504f3u);
  const V whole = converted<V>(__builtin_bit_cast(IntegersOf<V>, k)) - (tiny ? V{} + 23 : V{});
  return converted<DoublesOf<V>>(whole) * kLog2 + log_near_1(converted<DoublesOf<V>>(m));
}

inline double log_in_double(double x) {
  int k;
  double m = std::frexp(x, &k);
  if (m < 0.70710678118654752) m *= 2, --k;
  return k * kLog2 + log_near_1(m);
}

// Within 0.51 ulp; -infinity for 0, NaN below.
template <class V>
[[gnu::always_inline]] inline V log_of(V x) {
  const V zero{}, infinity = zero + __builtin_inff();
  V y = converted<V>(log_in_double(x));
  y = x == infinity ? x : y;
  y = x == 0 ? -infinity : y;
  return x >= 0 ? y : zero + __builtin_nanf("");
}

// tanh(|x|) = e / (e + 2), e = exp(2 |x|) - 1 = 2^n (exp(r) - 1) + (2^n - 1). Within 0.51 ulp.
template <class V>
[[gnu::always_inline]] inline V tanh_of(V x) {
  using D = DoublesOf<V>;
  const V zero{}, size = x < 0 ? -x : x, within = size > 10 ? zero + 10 : size;
  const D twice = 2 * converted<D>(within);
  const D n = rounded(D(twice * kLog2E));
  const auto whole = __builtin_bit_cast(BitsOf<V>, converted<IntegersOf<V>>(n));
  const D power = converted<D>(power_of_2<V>(whole));
  const D e = power * exp_minus_1(D(twice - n * kLog2)) + (power - 1);
  const V y = converted<V>(D(e / (e + 2)));
  const V signed_y = x < 0 ? -y : y;
  return ((size < 1e-5f) | (x != x)) ? x : signed_y;
}

// exp(b log(|a|)), with the special cases of C's pow. Within 0.51 ulp.
template <class V>
[[gnu::always_inline]] inline V pow_of(V a, V b) {
  using D = DoublesOf<V>;
  using I = IntegersOf<V>;
  const V zero{}, one = zero + 1, infinity = zero + __builtin_inff();
  const V base = a < 0 ? -a : a, size = b < 0 ? -b : b;
  D exponent = converted<D>(b) * log_in_double(base);
  exponent = exponent > 89 ? D{} + 89 : exponent;
  exponent = exponent < -104 ? D{} - 104 : exponent;
  const D n = rounded(D(exponent * kLog2E));
  const D e = 1 + exp_minus_1(D(exponent - n * kLog2));
  V y = scaled(converted<V>(e), __builtin_bit_cast(BitsOf<V>, converted<I>(n)));
  const V limit = (base > 1) == (b > 0) ? infinity : zero;
  y = ((base == 0) | (base == infinity) | (size == infinity)) ? limit : y;
  const V in_range = size < 16777216 ? b : zero;  // above 2^24 all are even
  const I whole = converted<I>(in_range);
  y = ((__builtin_bit_cast(I, a) < 0) & ((whole & 1) != 0)) ? -y : y;
  const V nan = zero + __builtin_nanf("");
  y = ((a < 0) & (converted<V>(whole) != in_range) & (base != infinity)) ? nan : y;
  y = ((a != a) | (b != b)) ? nan : y;
  return ((a == 1) | (b == 0) | ((base == 1) & (size == infinity))) ? one : y;
}

// x rounded to the numbers of bfloat16, as bfloat16(x) does (engine/dtype.h).
template <class V>
[[gnu::always_inline]] inline V bfloat16_of(V x) {
  using B = BitsOf<V>;
  const B u = __builtin_bit_cast(B, x);
  const B near = (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
  return x != x ? x : __builtin_bit_cast(V, near);
}

// x rounded to the numbers of float16.
template <class V>
[[gnu::always_inline]] inline V float16_of(V x) {
  using B = BitsOf<V>;
  const B u = __builtin_bit_cast(B, x);
  const V size = __builtin_bit_cast(V, u & 0x7fffffffu);
  const V normal = __builtin_bit_cast(V, (u + 0xfffu + ((u >> 13) & 1u)) & 0x7fffe000u);
  const V denormal = (size + 0.5f) - 0.5f;  // 0.5 has the unit 2^-24
  V y = size < 0x1p-14f ? denormal : normal;
  y = size >= 65520 ? V{} + __builtin_inff() : y;
  y = __builtin_bit_cast(V, __builtin_bit_cast(B, y) | (u & 0x80000000u));
  return x != x ? x : y;
}

// Rounds to odd, so that rounding to 16 bits after it rounds once (engine/dtype.h).
inline float odd_float_of(double x) {
  const auto near = static_cast<float>(x);
  const auto back = static_cast<double>(near);
  const auto bits = __builtin_bit_cast(uint32_t, near);
  if (back == x || x != x || (bits & 1) != 0) return near;
  const bool above = x < 0 ? back < x : back > x;
  return __builtin_bit_cast(float, above ? bits - 1 : (bits | (x < 0 ? 0x80000000u : 0u)) + 1);
}
inline double bfloat16_of(double x) { return static_cast<double>(bfloat16_of(odd_float_of(x))); }
inline double float16_of(double x) { return static_cast<double>(float16_of(odd_float_of(x))); }
inline double exp_of(double x) { return std::exp(x); }
inline double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
inline double erf_of(double x) { return std::erf(x); }
inline double log_of(double x) { return std::log(x); }
inline double tanh_of(double x) { return std::tanh(x); }
inline double pow_of(double a, double b) { return std::pow(a, b); }

}  // namespace
}  // namespace tessera
