// Printing tensors the way numpy does.
#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/engine/tensor.h"

namespace tessera {
namespace {

constexpr int64_t kEdge = 3, kWhole = 1000;

std::string element(double value, bool whole_number) {
  return whole_number ? fmt::format("{}", static_cast<int64_t>(value))
                      : fmt::format("{:.6g}", value);
}

// Appends the block of `axis` that starts at `at`, which is moved on.
void append(std::string& text, const std::vector<double>& values, const Shape& shape, int axis,
            size_t at, bool whole_number) {
  if (axis == shape.rank()) {
    text += element(values[at], whole_number);
    return;
  }
  auto stride = static_cast<size_t>(shape.elements(axis + 1, shape.rank()));
  bool shorten = shape.elements() > kWhole && shape[axis] > 2 * kEdge;
  bool last = axis + 1 == shape.rank();
  text += '[';
  for (int64_t i = 0; i < shape[axis]; ++i) {
    if (i > 0) text += last ? ", " : ",\n" + std::string(static_cast<size_t>(axis) + 1, ' ');
    if (shorten && i == kEdge) {
      text += "...";
      i = shape[axis] - kEdge - 1;
      continue;
    }
    append(text, values, shape, axis + 1, at + static_cast<size_t>(i) * stride, whole_number);
  }
  text += ']';
}

}  // namespace

std::string TensorSpec::text() const {
  std::string text = fmt::format("{}{}", name_of(dtype), shape.text());
  return device == Device{} ? text : text + "@" + device.name();
}

std::string Tensor::text() const {
  if (!defined()) return "undefined";
  std::vector<double> values = cast(*this, DType::f64).to_vector<double>();
  std::string text;
  append(text, values, shape(), 0, 0, !is_float(dtype()));
  return text;
}

}  // namespace tessera
