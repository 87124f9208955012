// OpAttribute: the attributes of an op that its shapes do not show, for export to ONNX.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera {

// "stride" {2, 2}. Attributes of images have rows and columns; axes are one number each; a range of
// axes is {first, end}.
struct OpAttribute {
  std::string_view name;
  std::vector<double> values;
};

// Implemented by ops with attributes. Pointwise programs, and ops that their shapes define, need
// not.
class HasAttributes {
 public:
  virtual std::vector<OpAttribute> attributes() const = 0;

 protected:
  ~HasAttributes() = default;
};

}  // namespace tessera
