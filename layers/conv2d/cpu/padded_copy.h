// Copies part of an image with zeros around it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tessera/layers/shared/epilogue_hook.h"

namespace tessera {

// Copies rows [first_row, first_row + rows) and columns [first_column, first_column + columns) of
// an image [h, w, c] into a dense block, with zeros outside the image.
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

// Computes the block of copy_padded() for an image that the prologue `x` computes, which begins at
// `first_element` of the whole input.
template <class T>
void read_padded(const Prologue<T>& x, int64_t first_element, int64_t h, int64_t w, int64_t c,
                 int64_t first_row, int64_t first_column, int64_t rows, int64_t columns, T* block) {
  const int64_t top = std::clamp<int64_t>(-first_row, 0, rows);
  const int64_t bottom = std::clamp<int64_t>(h - first_row, top, rows);
  const int64_t left = std::clamp<int64_t>(-first_column, 0, columns);
  const int64_t end = std::clamp<int64_t>(w - first_column, left, columns);
  const int64_t length = columns * c;
  const auto at = [&](int64_t row) {
    return first_element + ((first_row + row) * w + first_column + left) * c;
  };
  std::memset(block, 0, top * length * sizeof(T));
  if (columns == w && left == 0 && end == w) {  // whole rows, in one call
    if (top < bottom) x.read(x.context, block + top * length, at(top), (bottom - top) * length);
  } else {
    for (int64_t r = top; r < bottom; ++r) {
      T* row = block + r * length;
      std::memset(row, 0, left * c * sizeof(T));
      if (left < end) x.read(x.context, row + left * c, at(r), (end - left) * c);
      std::memset(row + end * c, 0, (columns - end) * c * sizeof(T));
    }
  }
  std::memset(block + bottom * length, 0, (rows - bottom) * length * sizeof(T));
}

}  // namespace tessera
