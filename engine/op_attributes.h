// What besides the shapes decides about an op's results, for whoever writes it down for other
// programs.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera {

// "stride" {2, 2}: of an image always rows and columns, of axes one number for each, of a range of
// axes the first and the one behind it.
struct OpAttribute {
  std::string_view name;
  std::vector<double> values;
};

// An op that tells. One that is a pointwise program, or whose shapes say all, need not.
class HasAttributes {
 public:
  virtual std::vector<OpAttribute> attributes() const = 0;

 protected:
  ~HasAttributes() = default;
};

}  // namespace tessera
