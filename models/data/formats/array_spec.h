// ArraySpec: the name, dtype and shape of an array in a file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct ArraySpec {
  std::string name;            // "fc.b" or "weights/fc.b"
  std::string dtype;           // "float32", a name_of(DType)
  std::vector<int64_t> shape;  // empty: a scalar
  bool operator==(const ArraySpec&) const = default;
};

}  // namespace tessera
