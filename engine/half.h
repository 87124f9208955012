// bfloat16 and float16: elements of 16 bits. They store numbers; arithmetic on them is float's.
//
//   bfloat16  sign, 8 bits of exponent, 7 of fraction: the upper half of a float32
//   float16   sign, 5 bits of exponent, 10 of fraction: largest 65504, smallest 2^-24 (IEEE 754)
//
// Conversions from any number round once, to nearest, ties to even; what is too large becomes
// infinite. Denormal numbers are kept, NaN stays NaN.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tessera/runtime/device.h"

namespace tessera {
namespace half {

TESSERA_HOST_DEVICE constexpr uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
TESSERA_HOST_DEVICE constexpr float float_of(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

// Rounds to odd: a float that is not exact has an odd last bit, so that rounding it again, to fewer
// bits, gives what rounding x once gives (Boldo and Melquiond, "Emulation of FMA and correctly
// rounded sums: proved algorithms using rounding to odd", 2008).
TESSERA_HOST_DEVICE constexpr float odd_float(double x) {
  const auto near = static_cast<float>(x);
  const auto back = static_cast<double>(near);
  const uint32_t bits = bits_of(near);
  if (back == x || x != x || (bits & 1) != 0) return near;
  const bool above = x < 0 ? back < x : back > x;  // farther from 0 than x
  return float_of(above ? bits - 1 : (bits | (x < 0 ? 0x80000000u : 0u)) + 1);
}

TESSERA_HOST_DEVICE constexpr uint16_t to_bfloat16(float x) {
  const uint32_t u = bits_of(x);
  if (x != x) return static_cast<uint16_t>(u >> 16 | 0x40);
  return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

TESSERA_HOST_DEVICE constexpr uint16_t to_float16(float x) {
  const uint32_t sign = bits_of(x) >> 16 & 0x8000, u = bits_of(x) & 0x7fffffff;
  uint32_t h = 0;
  if (u > 0x7f800000)
    h = 0x7e00 | (u >> 13 & 0x3ff);  // NaN
  else if (u >= 0x477ff000)
    h = 0x7c00;  // at least 65520, which rounds to infinity
  else if (u < 0x38800000)
    h = bits_of(float_of(u) + 0.5f) - bits_of(0.5f);  // denormal: 0.5 has the unit 2^-24
  else
    h = (u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13;
  return static_cast<uint16_t>(sign | h);
}

TESSERA_HOST_DEVICE constexpr float from_float16(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, e = h >> 10 & 0x1f, fraction = h & 0x3ffu;
  if (e == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return float_of(sign | (e == 31 ? 0x7f800000u : (e + 112) << 23) | fraction << 13);
}

// Returns a number as a float that rounds to 16 bits as the number does.
template <class T>
TESSERA_HOST_DEVICE constexpr float as_float(T x) {
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, float>)
    return odd_float(static_cast<double>(x));
  else
    return x;
}

}  // namespace half

struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  template <class T, class = std::enable_if_t<std::is_convertible_v<T, float>>>
  TESSERA_HOST_DEVICE constexpr explicit bfloat16(T x)
      : bits(half::to_bfloat16(half::as_float(x))) {}
  TESSERA_HOST_DEVICE constexpr operator float() const {
    return half::float_of(static_cast<uint32_t>(bits) << 16);
  }
};

struct float16 {
  uint16_t bits = 0;
  float16() = default;
  template <class T, class = std::enable_if_t<std::is_convertible_v<T, float>>>
  TESSERA_HOST_DEVICE constexpr explicit float16(T x) : bits(half::to_float16(half::as_float(x))) {}
  TESSERA_HOST_DEVICE constexpr operator float() const { return half::from_float16(bits); }
};

}  // namespace tessera
