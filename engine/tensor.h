// Tensor: a handle to a dense, row-major block of elements, and the eager API over it.
//
// Handles are cheap to copy and share their bytes. A tensor is concrete (it has bytes on a device)
// or, during capture, stands for a value of the graph. Not thread-safe.
#pragma once

#include <cstring>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/dtype.h"
#include "tessera/engine/shape.h"
#include "tessera/runtime/device.h"

namespace tessera {

// All properties of a tensor except its values.
struct TensorSpec {
  DType dtype = DType::f32;
  Shape shape;
  Device device;
  bool operator==(const TensorSpec&) const = default;
  size_t bytes() const;      // throws ShapeError if the size exceeds 63 bits
  std::string text() const;  // "float32[4x12x12x3]", plus "@gpu:0" if not on cpu:0
};
using Specs = std::vector<TensorSpec>;
using SpecView = std::span<const TensorSpec>;

struct TensorImpl;
class Tensor;
using Tensors = std::vector<Tensor>;

class Tensor {
 public:
  Tensor() = default;  // undefined: no tensor at all
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const TensorSpec& spec() const;
  const Shape& shape() const { return spec().shape; }
  DType dtype() const { return spec().dtype; }
  Device device() const { return spec().device; }
  int64_t elements() const { return shape().elements(); }

  // Returns the only element of a one-element tensor, converted to T. Reading values waits for the
  // device; under capture it throws Error.
  template <class T>
  T item() const {
    return static_cast<T>(item_as_double());
  }
  // Returns all elements in row-major order; T must be the C++ type of dtype().
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> values(static_cast<size_t>(elements()));
    read(values.data(), dtype_of<T>);
    return values;
  }
  // Overwrites all elements; T must be the C++ type of dtype().
  template <class T>
  void assign(std::span<const T> values) {
    write(values.data(), values.size(), dtype_of<T>);
  }
  void assign_scalar(double value);  // a one-element tensor of any dtype
  std::string text() const;          // like numpy, large tensors shortened; or use <<

  // Element-wise, broadcasting as numpy does. Both tensors have one dtype. Integers wrap around and
  // have no / (use floor_divide() in pointwise.h or cast() in structural.h). A number operand must
  // be representable in that dtype.
  friend Tensor operator+(const Tensor& a, const Tensor& b);
  friend Tensor operator-(const Tensor& a, const Tensor& b);
  friend Tensor operator*(const Tensor& a, const Tensor& b);
  friend Tensor operator/(const Tensor& a, const Tensor& b);
  friend Tensor operator+(const Tensor& a, double b);
  friend Tensor operator-(const Tensor& a, double b);
  friend Tensor operator*(const Tensor& a, double b);
  friend Tensor operator/(const Tensor& a, double b);
  friend Tensor operator+(double a, const Tensor& b) { return b + a; }
  friend Tensor operator-(double a, const Tensor& b);
  friend Tensor operator*(double a, const Tensor& b) { return b * a; }
  friend Tensor operator/(double a, const Tensor& b);
  friend Tensor operator-(const Tensor& a) { return a * -1.0; }

  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& shared() const { return impl_; }

 private:
  double item_as_double() const;
  void read(void* host, DType type) const;
  void write(const void* host, size_t elements, DType type);

  std::shared_ptr<TensorImpl> impl_;
};

std::ostream& operator<<(std::ostream& out, const Tensor& tensor);  // tensor.text()

// Creation functions use the current device.
Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
inline Tensor zeros(const Shape& shape, DType dtype = DType::f32) { return full(shape, 0, dtype); }
inline Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, 1, dtype); }
Tensor scalar(double value, DType dtype = DType::f32);   // shape []
Tensor arange(int64_t count, DType dtype = DType::f32);  // 0, 1, ..., count - 1
// Returns first, first + step, ... without last; truncated for integers.
Tensor arange(double first, double last, double step = 1, DType dtype = DType::f32);
Tensor from_bytes(const Shape& shape, DType dtype, const void* host);
template <class T>
Tensor from_vector(const Shape& shape, const std::vector<T>& values);
// Uniform in [low, high) and normal(mean, stddev). Equal keys give equal values.
Tensor random_uniform(const Shape& shape, uint64_t key, double low = 0, double high = 1,
                      DType dtype = DType::f32);
Tensor random_normal(const Shape& shape, uint64_t key, double mean = 0, double stddev = 1,
                     DType dtype = DType::f32);
// Returns a value that capture fixes. Any other external tensor is read again in every run.
Tensor constant(const Tensor& value);
// Returns uninitialised memory.
Tensor empty(const TensorSpec& spec);

void check_element_count(const Shape& shape, size_t given);  // throws ShapeError if they differ

template <class T>
Tensor from_vector(const Shape& shape, const std::vector<T>& values) {
  check_element_count(shape, values.size());
  return from_bytes(shape, dtype_of<T>, values.data());
}

}  // namespace tessera
