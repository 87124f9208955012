// Element types.
//
// bfloat16 and float16 store numbers in 16 bits; arithmetic on them is float's:
//
//   bfloat16  sign, 8 bits of exponent, 7 of fraction: the upper half of a float32
//   float16   sign, 5 bits of exponent, 10 of fraction: largest 65504, smallest 2^-24 (IEEE 754)
//
// Conversions from any number round once, to nearest, ties to even; what is too large becomes
// infinite. Denormal numbers are kept, NaN stays NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace tessera {
namespace half {

constexpr uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
constexpr float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// Rounds to odd: a float that is not exact has an odd last bit, so that rounding it again, to fewer
// bits, gives what rounding x once gives (Boldo and Melquiond, "Emulation of FMA and correctly
// rounded sums: proved algorithms using rounding to odd", 2008).
constexpr float odd_float(double x) {
  const auto near = static_cast<float>(x);
  const auto back = static_cast<double>(near);
  const uint32_t bits = bits_of(near);
  if (back == x || x != x || (bits & 1) != 0) return near;
  const bool above = x < 0 ? back < x : back > x;  // farther from 0 than x
  return float_of(above ? bits - 1 : (bits | (x < 0 ? 0x80000000u : 0u)) + 1);
}

constexpr uint16_t to_bfloat16(float x) {
  const uint32_t u = bits_of(x);
  if (x != x) return static_cast<uint16_t>(u >> 16 | 0x40);
  return static_cast<uint16_t>((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

constexpr uint16_t to_float16(float x) {
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

constexpr float from_float16(uint16_t h) {
  const uint32_t sign = (h & 0x8000u) << 16, e = h >> 10 & 0x1f, fraction = h & 0x3ffu;
  if (e == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return float_of(sign | (e == 31 ? 0x7f800000u : (e + 112) << 23) | fraction << 13);
}

// Returns a number as a float that rounds to 16 bits as the number does.
template <class T>
constexpr float as_float(T x) {
  if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, float>)
    return odd_float(static_cast<double>(x));
  else
    return x;
}

}  // namespace half

struct bfloat16 {
  uint16_t bits;
  bfloat16() = default;
  template <class T, class = std::enable_if_t<std::is_convertible_v<T, float>>>
  constexpr explicit bfloat16(T x) : bits(half::to_bfloat16(half::as_float(x))) {}
  constexpr operator float() const { return half::float_of(static_cast<uint32_t>(bits) << 16); }
};

struct float16 {
  uint16_t bits;
  float16() = default;
  template <class T, class = std::enable_if_t<std::is_convertible_v<T, float>>>
  constexpr explicit float16(T x) : bits(half::to_float16(half::as_float(x))) {}
  constexpr operator float() const { return half::from_float16(bits); }
};

enum class DType : uint8_t { f32, f64, bf16, f16, u8, i32, i64 };

// The C++ types of the dtypes, in the order of DType, and the names of all: those that are computed
// with, those that only store floating-point numbers, integers. A new dtype needs an enumerator, a
// type and a name.
template <class... T>
struct TypeList {};
using FloatTypes = TypeList<float, double>;
using HalfTypes = TypeList<bfloat16, float16>;
using IntegerTypes = TypeList<uint8_t, int32_t, int64_t>;
inline constexpr std::string_view kDTypeNames[] = {"float32", "float64", "bfloat16", "float16",
                                                   "uint8",   "int32",   "int64"};

template <class... F, class... H, class... I>
constexpr TypeList<F..., H..., I...> joined(TypeList<F...>, TypeList<H...>, TypeList<I...>) {
  return {};
}
using AllTypes = decltype(joined(FloatTypes(), HalfTypes(), IntegerTypes()));

constexpr std::string_view name_of(DType type) { return kDTypeNames[static_cast<size_t>(type)]; }

template <class T, class... All>
constexpr DType dtype_in(TypeList<All...>) {
  static_assert((std::is_same_v<T, All> || ...), "T is not an element type");
  uint8_t index = 0;
  static_cast<void>(((std::is_same_v<T, All> || (++index, false)) || ...));
  return static_cast<DType>(index);
}
template <class T>
inline constexpr DType dtype_of = dtype_in<T>(AllTypes());

// Calls fn with a value of the type that `type` names and returns its result. If the list has no
// such type, returns a default-constructed result.
template <class F, class First, class... Rest>
constexpr auto visit_types(TypeList<First, Rest...>, DType type, F&& fn) {
  using Result = std::invoke_result_t<F&, First>;
  if constexpr (sizeof...(Rest) > 0)
    if (type != dtype_of<First>) return visit_types(TypeList<Rest...>(), type, fn);
  if (type == dtype_of<First>) return static_cast<Result>(fn(First{}));
  return Result();
}

// Calls fn with a value of float or double, the types that kernels compute with; does nothing for
// any other dtype. Example: visit_float(t, [&](auto zero) { using T = decltype(zero); ... })
template <class F>
constexpr auto visit_float(DType type, F&& fn) {
  return visit_types(FloatTypes(), type, fn);
}
// Calls fn with a value of the C++ type of any floating-point dtype, those of 16 bits included.
template <class F>
constexpr auto visit_any_float(DType type, F&& fn) {
  return visit_types(joined(FloatTypes(), HalfTypes(), TypeList<>()), type, fn);
}
// Calls fn with a value of the C++ type of an integer dtype.
template <class F>
constexpr auto visit_integer(DType type, F&& fn) {
  return visit_types(IntegerTypes(), type, fn);
}
// Calls fn with a value of the C++ type of any dtype.
template <class F>
constexpr auto visit_dtype(DType type, F&& fn) {
  return visit_types(AllTypes(), type, fn);
}

constexpr bool is_half(DType type) {
  return visit_types(HalfTypes(), type, [](auto) { return true; });
}
constexpr bool is_float(DType type) {
  return is_half(type) || visit_float(type, [](auto) { return true; });
}
// Returns the dtype in which ops compute with elements of `type`: float32 for 16 bits.
constexpr DType compute_type(DType type) { return is_half(type) ? DType::f32 : type; }
template <class S>
using Computed = std::conditional_t<is_half(dtype_of<S>), float, S>;
// Returns the dtype of the result of element-wise ops on two floating-point dtypes:
//
//             float32   bfloat16  float16
//   float32   float32   float32   float32
//   bfloat16  float32   bfloat16  float32
//   float16   float32   float32   float16
//
// float64 is not mixed with others: cast() says which of the two is meant.
constexpr DType promoted(DType a, DType b) { return a == b ? a : DType::f32; }
// Returns whether ops may read both in one call.
constexpr bool are_mixable(DType a, DType b) {
  return is_float(a) && is_float(b) && (a == b || (a != DType::f64 && b != DType::f64));
}
constexpr size_t size_of(DType type) {
  return visit_dtype(type, [](auto value) { return sizeof(value); });
}

}  // namespace tessera
