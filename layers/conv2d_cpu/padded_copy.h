// Copies part of an image with zeros around it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tessera {

// Copies rows [first_row, first_row + rows) and columns [first_column, first_column + columns) of
// an image [h, w, c] into a dense block, with zeros for what lies outside.
template <class T>
void copy_padded(const T* image, int64_t h, int64_t w, int64_t c, int64_t first_row,
                 int64_t first_column, int64_t rows, int64_t columns, T* block) {
  const int64_t left = std::clamp<int64_t>(-first_column, 0, columns);
  const int64_t end = std::clamp<int64_t>(w - first_column, left, columns);
  for (int64_t r = 0; r < rows; ++r, block += columns * c) {
    const int64_t row = first_row + r;
    if (row < 0 || row >= h) {
      std::memset(block, 0, columns * c * sizeof(T));
      continue;
    }
    std::memset(block, 0, left * c * sizeof(T));
    std::memcpy(block + left * c, image + (row * w + first_column + left) * c,
                (end - left) * c * sizeof(T));
    std::memset(block + end * c, 0, (columns - end) * c * sizeof(T));
  }
}

}  // namespace tessera
