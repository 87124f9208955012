// Shape: the sizes of a dense, row-major tensor with at most kMaxRank axes. Allocates nothing.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

inline constexpr int kMaxRank = 6;

class Shape {
 public:
  Shape() = default;  // a scalar: rank 0, one element
  Shape(std::initializer_list<int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const int64_t> sizes);  // throws ShapeError: rank > kMaxRank, size < 0

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return sizes_[axis < 0 ? axis + rank_ : axis]; }
  int64_t& operator[](int axis) { return sizes_[axis < 0 ? axis + rank_ : axis]; }
  int64_t back() const { return rank_ == 0 ? 1 : sizes_[rank_ - 1]; }
  int64_t elements() const;
  // Returns the product of the sizes of the axes in [first, last).
  int64_t elements(int first, int last) const;
  std::span<const int64_t> sizes() const { return {sizes_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + rank_; }
  std::string text() const;  // "[4x12x12x3]", "[]"
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};

// Returns the broadcast shape (numpy). Throws ShapeError, naming `op_name`, if there is none.
Shape broadcast(const Shape& a, const Shape& b, std::string_view op_name);

}  // namespace tessera
