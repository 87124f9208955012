// Computes an ONNX file by the definitions of its operators, element by element in float64: slow,
// but independent of our code. Throws std::runtime_error for unsupported files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
}

namespace tessera::testing_onnx {

struct Array {
  std::vector<int64_t> shape;
  std::vector<double> values;
};

// Returns the output "logits" for the input "images".
Array run(const onnx::ModelProto& model, const Array& images);

}  // namespace tessera::testing_onnx
