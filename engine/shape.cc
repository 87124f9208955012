#include "tessera/engine/shape.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/runtime/error.h"

namespace tessera {

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

}  // namespace tessera
