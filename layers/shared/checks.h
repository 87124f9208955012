// InputCheck: the shape checks of ops. Every message names the op and shows all its inputs.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/tensor.h"

namespace tessera {

// Checks the inputs of one call; every check throws ShapeError if it fails.
class InputCheck {
 public:
  // Requires exactly one input for each name.
  InputCheck(std::string_view op, SpecView in, std::vector<const char*> names);

  void rank(int input, int rank) const;
  void dtype(int input, DType dtype) const;
  // Checks that the listed inputs, by default all, are float64, or any mixture of the smaller
  // floating-point dtypes, which is computed in float32.
  void floats(std::initializer_list<int> inputs) const;
  void floats() const;
  // Checks for exactly this shape; `why` is the origin of the shape ("like x").
  void shape(int input, const Shape& shape, std::string_view why) const;
  // throws "op: what (a float32[2x3], b float32[4x5])"
  [[noreturn]] void fail(std::string_view what) const;

 private:
  std::string_view op_;
  SpecView in_;
  std::vector<const char*> names_;
};

}  // namespace tessera
