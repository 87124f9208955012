// What the operators of the eager API do with integers. They wrap around; division rounds down, and
// division by 0 gives 0.
#pragma once

#include "tessera/engine/tensor.h"

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

// Both of one integer dtype; broadcast as numpy does.
Tensor integer_arithmetic(IntegerOp op, const Tensor& a, const Tensor& b);

// A scalar of x's dtype; throws ShapeError where the dtype has no such number.
Tensor constant_like(const char* who, const Tensor& x, double value);

}  // namespace tessera
