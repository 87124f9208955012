// Element types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tessera/engine/half.h"

namespace tessera {

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
