#include "tessera/engine/tensor.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/engine/allocation_trace.h"
#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/storage.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/memory/allocator.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/random.h"

namespace tessera {
namespace {

thread_local Recorder* recorder = nullptr;

template <class F>
Tensor random(const Shape& shape, DType dtype, F&& next) {
  std::vector<double> values(static_cast<size_t>(shape.elements()));
  for (double& value : values) value = next();
  return cast(from_vector(shape, values), dtype);
}

constexpr int64_t kEdge = 3, kWhole = 1000;

std::string element(int64_t value) { return fmt::format("{}", value); }
std::string element(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);  // no sign for NaN
}

// Prints tensors as numpy does. T: double or int64_t.
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

Shape::Shape(std::span<const int64_t> sizes) : rank_(static_cast<int>(sizes.size())) {
  if (sizes.size() > kMaxRank)
    throw ShapeError(
        fmt::format("shape: at most {} axes are supported, but got {}", kMaxRank, sizes.size()));
  for (int i = 0; i < rank_; ++i) {
    if (sizes[i] < 0)
      throw ShapeError(
          fmt::format("shape: a size must not be negative, but got [{}]", fmt::join(sizes, "x")));
    sizes_[i] = sizes[i];
  }
}

int64_t Shape::elements() const { return elements(0, rank_); }

int64_t Shape::elements(int first, int last) const {
  int64_t count = 1;
  for (int i = first; i < last; ++i) {
    if (__builtin_mul_overflow(count, sizes_[i], &count))
      throw ShapeError(fmt::format("shape: {} has more elements than 63 bits can count", text()));
  }
  return count;
}

std::string Shape::text() const { return fmt::format("[{}]", fmt::join(sizes(), "x")); }

Shape broadcast(const Shape& a, const Shape& b, std::string_view op_name) {
  int rank = std::max(a.rank(), b.rank());
  std::array<int64_t, kMaxRank> sizes{};
  for (int i = 1; i <= rank; ++i) {
    int64_t x = i <= a.rank() ? a[-i] : 1, y = i <= b.rank() ? b[-i] : 1;
    if (x != y && x != 1 && y != 1)
      throw ShapeError(
          fmt::format("{}: sizes must be equal or 1 on every axis, counted from the last, but the "
                      "shapes are {} and {}",
                      op_name, a.text(), b.text()));
    sizes[rank - i] = x == 1 ? y : x;
  }
  return Shape(std::span(sizes.data(), static_cast<size_t>(rank)));
}

Storage::~Storage() {
  if (owner == nullptr || pointer == nullptr) return;
  record_release(*this);
  owner->release(pointer);
}

void* Storage::data() {
  if (pointer == nullptr && store != nullptr) store->materialize();
  return pointer;
}

char* TensorImpl::data() const {
  if (storage == nullptr)
    throw Error(fmt::format(
        "tensor: {} has no values while a step is being captured; read it after the step has run",
        spec.text()));
  return static_cast<char*>(storage->data()) + offset;
}

Tensor make_tensor(const TensorSpec& spec, std::shared_ptr<Storage> storage, int64_t offset) {
  auto impl = std::make_shared<TensorImpl>();
  impl->spec = spec;
  impl->storage = std::move(storage);
  impl->offset = offset;
  return Tensor(std::move(impl));
}

Tensor detach(const Tensor& tensor) {
  auto impl = std::make_shared<TensorImpl>(*tensor.impl());
  impl->node = nullptr;
  impl->output = 0;
  impl->leaf = false;
  impl->stop = nullptr;
  return Tensor(std::move(impl));
}

Recorder* current_recorder() { return recorder; }
RecorderScope::RecorderScope(Recorder* fresh) : ValueScope(recorder, fresh) {}

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
