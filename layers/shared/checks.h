// What the shape rules of ops share: every message names the op and shows all its inputs.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/tensor.h"

namespace tessera {

// Looks at the inputs of one call; every check throws ShapeError when it does not hold.
class InputCheck {
 public:
  // The call must have exactly one input for each name.
  InputCheck(std::string_view op, std::span<const TensorSpec> in, std::vector<const char*> names);

  void rank(int input, int rank) const;
  void dtype(int input, DType dtype) const;
  // float32 or float64, the same for all that are listed; without a list, for all inputs.
  void floats(std::initializer_list<int> inputs) const;
  void floats() const;
  // The input must have exactly this shape; `why` says where the shape comes from ("like x").
  void shape(int input, const Shape& shape, std::string_view why) const;
  // "op: what (a float32[2x3], b float32[4x5])"
  [[noreturn]] void fail(std::string_view what) const;

 private:
  std::string_view op_;
  std::span<const TensorSpec> in_;
  std::vector<const char*> names_;
};

}  // namespace tessera
