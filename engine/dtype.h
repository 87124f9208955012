// Element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera {

enum class DType : uint8_t { f32, f64, u8, i32, i64 };

constexpr size_t size_of(DType type) {
  switch (type) {
    case DType::u8:
      return 1;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::f64:
    case DType::i64:
      return 8;
  }
  return 0;
}

constexpr bool is_float(DType type) { return type == DType::f32 || type == DType::f64; }

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    case DType::u8:
      return "uint8";
    case DType::i32:
      return "int32";
    case DType::i64:
      return "int64";
  }
  return "?";
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

// Calls fn with a value of the C++ type of a floating-point dtype: visit_float(t, [&](auto zero) {
// using T = decltype(zero); ... }). Any other dtype is the caller's mistake and does nothing.
template <class F>
void visit_float(DType type, F&& fn) {
  if (type == DType::f32) fn(float{});
  if (type == DType::f64) fn(double{});
}
// The same for integers.
template <class F>
void visit_integer(DType type, F&& fn) {
  if (type == DType::u8) fn(uint8_t{});
  if (type == DType::i32) fn(int32_t{});
  if (type == DType::i64) fn(int64_t{});
}
// The same for any dtype.
template <class F>
void visit_dtype(DType type, F&& fn) {
  visit_float(type, fn);
  visit_integer(type, fn);
}

}  // namespace tessera
