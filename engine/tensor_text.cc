// Printing tensors the way numpy does.
#include <cmath>
#include <ostream>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tensor.h"

namespace tessera {
namespace {

constexpr int64_t kEdge = 3, kWhole = 1000;

std::string element(int64_t value) { return fmt::format("{}", value); }
std::string element(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);  // a NaN has no sign to tell
}

// T: double or int64_t.
template <class T>
class Printer {
 public:
  Printer(const std::vector<T>& values, const Shape& shape) : values_(values), shape_(shape) {}

  // Twice: to find how wide the widest number is, and to print them in columns.
  std::string text() {
    print(0, 0);
    if (shape_.rank() == 0) return text_;
    columns_ = widest_;
    text_.clear();
    print(0, 0);
    return text_;
  }

 private:
  void print_element(T value) {
    const std::string text = element(value);
    widest_ = std::max(widest_, text.size());
    text_ += fmt::format("{:>{}}", text, columns_);
  }

  // The block of `axis` that starts at `at`.
  void print(int axis, size_t at) {
    if (axis == shape_.rank()) return print_element(values_[at]);
    const auto stride = static_cast<size_t>(shape_.elements(axis + 1, shape_.rank()));
    const bool shorten = shape_.elements() > kWhole && shape_[axis] > 2 * kEdge;
    const bool last = axis + 1 == shape_.rank();
    text_ += '[';
    for (int64_t i = 0; i < shape_[axis]; ++i) {
      if (i > 0) text_ += last ? ", " : ",\n" + std::string(static_cast<size_t>(axis) + 1, ' ');
      if (shorten && i == kEdge) {
        text_ += "...";
        i = shape_[axis] - kEdge - 1;
        continue;
      }
      print(axis + 1, at + static_cast<size_t>(i) * stride);
    }
    text_ += ']';
  }

  const std::vector<T>& values_;
  const Shape& shape_;
  size_t widest_ = 0, columns_ = 0;
  std::string text_;
};

}  // namespace

std::string TensorSpec::text() const {
  std::string text = fmt::format("{}{}", name_of(dtype), shape.text());
  return device == Device{} ? text : text + "@" + device.name();
}

std::string Tensor::text() const {
  if (!defined()) return "undefined";
  const NoGradScope no_tape;
  if (is_float(dtype()))
    return Printer(cast(*this, DType::f64).to_vector<double>(), shape()).text();
  return Printer(cast(*this, DType::i64).to_vector<int64_t>(), shape()).text();
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << tensor.text(); }

}  // namespace tessera
