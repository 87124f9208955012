// Loops over the elements of an output on the pool: in chunks, or line by line along its last axis,
// reading each input with its own strides.
#pragma once

#include <algorithm>
#include <array>

#include "tessera/engine/shape.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

// The strides of an input, in elements, for each axis of the output.
using Strides = std::array<int64_t, kMaxRank>;

// Elements per task: whole steps of compiled pointwise code, half of an L2 cache.
inline constexpr int64_t kElementChunk = 1 << 14;

// Calls fn(first, count) for chunks of [0, total) on the pool.
template <int64_t kSize = kElementChunk, class F>
void for_chunks(ThreadPool& pool, int64_t total, F&& fn) {
  pool.parallel_for((total + kSize - 1) / kSize, [&](int64_t chunk) {
    fn(chunk * kSize, std::min(kSize, total - chunk * kSize));
  });
}

// Returns the strides of x, 0 along the axes that are broadcast to `out`.
inline Strides broadcast_strides(const Shape& x, const Shape& out) {
  Strides strides{};
  int64_t stride = 1;
  for (int i = 1; i <= x.rank(); ++i) {
    strides[static_cast<size_t>(out.rank() - i)] = x[-i] == 1 ? 0 : stride;
    stride *= x[-i];
  }
  return strides;
}

template <size_t N>
std::array<Strides, N> broadcast_strides(const auto& in, const Shape& out) {
  std::array<Strides, N> strides;
  for (size_t k = 0; k < N; ++k) strides[k] = broadcast_strides(in[k].spec.shape, out);
  return strides;
}

// A segment of the output along its last axis, and the offset and step of each input.
template <size_t N>
struct Line {
  int64_t first, size;
  std::array<int64_t, N> from, step;
};

// Calls fn(line) for all lines of the output on the pool.
template <size_t N, class F>
void for_lines(ThreadPool& pool, const Shape& out, const std::array<Strides, N>& strides, F&& fn) {
  const int last = std::max(out.rank() - 1, 0);
  const int64_t size = out.back(), lines = size == 0 ? 0 : out.elements() / size;
  pool.parallel_for(lines, out.elements(), [&](int64_t index) {
    Line<N> line{index * size, size, {}, {}};
    for (size_t k = 0; k < N; ++k) {
      int64_t rest = index;
      for (int axis = last - 1; axis >= 0; --axis) {
        line.from[k] += rest % out[axis] * strides[k][static_cast<size_t>(axis)];
        rest /= out[axis];
      }
      line.step[k] = strides[k][static_cast<size_t>(last)];
    }
    fn(line);
  });
}

}  // namespace tessera
