#include "tessera/engine/tensor.h"

#include <cmath>
#include <numeric>
#include <ostream>

#include <fmt/format.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/structural.h"
#include "tessera/memory/allocator.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"

namespace tessera {

const TensorSpec& Tensor::spec() const {
  if (!defined()) throw Error("tensor: this tensor is undefined; it was never given a value");
  return impl_->spec;
}

size_t TensorSpec::bytes() const {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(shape.elements(), static_cast<int64_t>(size_of(dtype)), &bytes))
    throw ShapeError(fmt::format("tensor: {} has more bytes than 63 bits can count", text()));
  return static_cast<size_t>(bytes);
}

void check_element_count(const Shape& shape, size_t given) {
  if (static_cast<size_t>(shape.elements()) != given)
    throw ShapeError(fmt::format("tensor: shape {} has {} elements, but got {} values",
                                 shape.text(), shape.elements(), given));
}

void Tensor::read(void* host, DType type) const {
  if (type != dtype())
    throw ShapeError(fmt::format("tensor: the dtype is {}, but the values are read as {}",
                                 name_of(dtype()), name_of(type)));
  if (elements() == 0) return;
  const char* bytes = impl_->data();
  context(device()).copy_to_host(host, bytes, spec().bytes());
}

void Tensor::write(const void* host, size_t count, DType type) {
  check_element_count(shape(), count);
  if (type != dtype())
    throw ShapeError(fmt::format("tensor: the dtype is {}, but the written values are {}",
                                 name_of(dtype()), name_of(type)));
  char* bytes = impl_->data();
  if (count > 0) context(device()).copy_from_host(bytes, host, spec().bytes());
  ++impl_->storage->version;
}

double Tensor::item_as_double() const {
  if (elements() != 1)
    throw ShapeError(
        fmt::format("item: the tensor must have one element, but is {}", spec().text()));
  return visit_dtype(dtype(), [&](auto value) {
    read(&value, dtype());
    return static_cast<double>(value);
  });
}

void Tensor::assign_scalar(double value) {
  visit_dtype(dtype(), [&]<class T>(T) {
    const auto v = static_cast<T>(value);
    write(&v, 1, dtype());
  });
}

Tensor empty(const TensorSpec& spec) {
  if (current_recorder() != nullptr)
    throw Error("empty: memory cannot be allocated while a step is being captured; use full()");
  return make_tensor(spec, allocate_storage(spec.bytes(), spec.device));
}

Tensor from_bytes(const Shape& shape, DType dtype, const void* host) {
  RecorderScope now(nullptr);  // values from the host exist at once, also under capture
  Tensor tensor = empty({dtype, shape, current_device()});
  if (tensor.elements() > 0)
    context(tensor.device()).copy_from_host(tensor.impl()->data(), host, tensor.spec().bytes());
  return tensor;
}

Tensor scalar(double value, DType dtype) { return full({}, value, dtype); }

Tensor arange(int64_t count, DType dtype) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  return cast(from_vector({count}, values), dtype);
}

Tensor arange(double first, double last, double step, DType dtype) {
  const double count = std::ceil((last - first) / step);
  if (!(count >= 0 && count < 0x1p53))
    throw ShapeError(
        fmt::format("arange: a step of {} does not lead from {} to {}; use a step with the sign of "
                    "last - first",
                    step, first, last));
  std::vector<double> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<double>(i) * step;
  return cast(from_vector({std::ssize(values)}, values), dtype);
}

namespace {

template <class F>
Tensor random(const Shape& shape, DType dtype, F&& next) {
  std::vector<double> values(static_cast<size_t>(shape.elements()));
  for (double& value : values) value = next();
  return cast(from_vector(shape, values), dtype);
}

}  // namespace

Tensor random_uniform(const Shape& shape, uint64_t key, double low, double high, DType dtype) {
  RandomSequence sequence(key, 0);
  return random(shape, dtype, [&] { return low + (high - low) * sequence.uniform(); });
}

Tensor random_normal(const Shape& shape, uint64_t key, double mean, double stddev, DType dtype) {
  RandomSequence sequence(key, 0);
  return random(shape, dtype, [&] { return mean + stddev * sequence.normal(); });
}

Tensor constant(const Tensor& value) {
  Recorder* recorder = current_recorder();
  return recorder == nullptr ? value : recorder->record_constant(value);
}

// Prints tensors as numpy does.

namespace {

constexpr int64_t kEdge = 3, kWhole = 1000;

std::string element(int64_t value) { return fmt::format("{}", value); }
std::string element(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);  // no sign for NaN
}

// T: double or int64_t.
template <class T>
class Printer {
 public:
  Printer(const std::vector<T>& values, const Shape& shape) : values_(values), shape_(shape) {}

  // Prints twice: to find the widest number, then in columns.
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

  // Prints the block of `axis` that begins at `at`.
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
