// Integer arithmetic and comparisons of the eager API. Integers wrap around; division rounds down,
// and division by 0 gives 0.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tessera/engine/tensor.h"
#include "tessera/runtime/device.h"

namespace tessera {

enum class IntegerOp : uint8_t {
  add,
  subtract,
  multiply,
  floor_divide,
  remainder,
  maximum,
  minimum,
};
const char* name_of(IntegerOp op);

// Applies op to one pair of elements.
template <class T>
TESSERA_HOST_DEVICE T evaluate(IntegerOp op, T a, T b) {
  using U = std::make_unsigned_t<std::conditional_t<sizeof(T) < 4, int32_t, T>>;
  const U x = static_cast<U>(a), y = static_cast<U>(b);
  switch (op) {
    case IntegerOp::add:
      return static_cast<T>(x + y);
    case IntegerOp::subtract:
      return static_cast<T>(x - y);
    case IntegerOp::multiply:
      return static_cast<T>(x * y);
    case IntegerOp::maximum:
      return a < b ? b : a;
    case IntegerOp::minimum:
      return b < a ? b : a;
    case IntegerOp::floor_divide:
    case IntegerOp::remainder:
      break;
  }
  const bool quotient = op == IntegerOp::floor_divide;
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>)
    if (b == -1)
      return quotient ? static_cast<T>(U{0} - x) : 0;  // the smallest number has no negative
  const T rest = static_cast<T>(a % b);
  const bool down = rest != 0 && (rest ^ b) < 0;  // the signs differ
  if (quotient) return static_cast<T>(a / b - (down ? 1 : 0));
  return static_cast<T>(down ? rest + b : rest);
}

// Requires one integer dtype; broadcasts as numpy does.
Tensor integer_arithmetic(IntegerOp op, const Tensor& a, const Tensor& b);

// Returns a scalar of x's dtype. Throws ShapeError if the dtype cannot represent `value`.
Tensor scalar_like(const char* op_name, const Tensor& x, double value);

// The comparison operators, applied to each pair of elements.
enum class ComparisonDirection : uint8_t { equal, not_equal, less, less_equal };

template <class T>
TESSERA_HOST_DEVICE bool evaluate(ComparisonDirection relation, T a, T b) {
  switch (relation) {
    case ComparisonDirection::equal:
      return a == b;
    case ComparisonDirection::not_equal:
      return a != b;
    case ComparisonDirection::less:
      return a < b;
    case ComparisonDirection::less_equal:
      return a <= b;
  }
  return false;
}

}  // namespace tessera
