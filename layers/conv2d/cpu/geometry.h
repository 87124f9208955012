// ConvGeometry: index arithmetic of a convolution or its input gradient, from the shape alone.
//
// Both gather: each output pixel sums a small grid of input pixels, times filter taps. Along one
// axis, an output coordinate reads `taps` input coordinates. A convolution with 3 taps, padding 2
// and dilation 2 (base = -2, spacing = 2):
//
//   input       .  . [0  1  2  3  4  5]  .  .      . is padding
//   output 0    ^     ^     ^                      base + t * spacing
//   output 1       ^     ^     ^                   one in_step (the stride) further
//
// The input gradient reads dy and writes dx. If the stride is above 1, neighbours in dx use
// different taps; coordinates with the same remainder use the same taps. Each remainder is a
// *phase* (polyphase). A stride of 2, 3 taps, padding 1, so that y[i] reads x[2i - 1], x[2i] and
// x[2i + 1]:
//
//   dy           0     1     2
//              / | \ / | \ / |
//   dx           0  1  2  3  4
//   phase 0      0     2     4       tap 1 of dy[q]                      taps = 1, base = 0
//   phase 1         1     3          tap 2 of dy[q], tap 0 of dy[q + 1]  taps = 2, base = 0
//
// A convolution has one phase, its gradient stride_h * stride_w of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/runtime/integers.h"

namespace tessera {

// One axis of a phase. Output coordinate `first + q * out_step` (q < count) gathers the input
// coordinates q * in_step + base + t * spacing, t < taps. Tap t is filter coordinate
// first_tap + t * tap_step.
struct ConvAxis {
  int64_t first = 0, count = 0, base = 0, spacing = 1, taps = 0;
  int64_t first_tap = 0, tap_step = 1;

  struct Taps {
    int64_t first, last;
    bool operator==(const Taps&) const = default;
  };
  // Returns the taps, [first, last), whose input is in [0, size) if that of tap 0 is `start`.
  Taps inside(int64_t start, int64_t size) const {
    Taps in{0, taps};
    while (in.first < in.last && start + in.first * spacing < 0) ++in.first;
    while (in.first < in.last && start + (in.last - 1) * spacing >= size) --in.last;
    return in;
  }
};

// Both axes of a phase. Tap t is in row t / h.taps and column t % h.taps of the phase's taps.
struct ConvPhase {
  ConvAxis v, h;
  int64_t taps() const { return v.taps * h.taps; }
  // Returns the index of tap t in a filter of kw columns.
  int64_t filter_tap(int64_t t, int64_t kw) const {
    return (v.first_tap + t / h.taps * v.tap_step) * kw + h.first_tap + t % h.taps * h.tap_step;
  }
};

// All phases of an axis together.
struct AxisExtent {
  int64_t count = 0;            // maximum outputs (q) of a phase
  int64_t base = 0, reach = 0;  // q = 0 reads within [base, reach)
  bool inside = true;           // no tap leaves the image
};

struct ConvGeometry {
  // Treats 1x1 convolutions without stride and padding as one long column of pixels. `copies`: copy
  // the input even if it could be read in place, as a prologue computes it.
  ConvGeometry(const ConvShape& shape, bool backward, bool copies = false);

  ConvShape shape;
  bool backward;                // input gradient: in = dy, out = dx
  int64_t n, in_h, in_w, in_c;  // input
  int64_t out_h, out_w, out_c;  // output
  int64_t in_step_h, in_step_w, out_step_h, out_step_w;
  int64_t phases;
  AxisExtent rows, columns;
  // True if the input is read in place. Otherwise each task copies the rows that it reads to a
  // block that is block_w pixels wide, with zeros around the image; (base_h, base_w) is the block's
  // first pixel.
  bool direct;
  int64_t base_h, base_w, block_w;
  bool few_taps;    // a fifth or more of the taps of a row of outputs are outside the image
  bool joins_taps;  // the taps of a filter row read one run of consecutive elements

  ConvAxis axis(bool vertical, int64_t phase) const;
  ConvPhase phase(int64_t i) const { return {axis(true, i), axis(false, i)}; }
  // Returns the number of input rows that `count` phase rows read.
  int64_t block_rows(int64_t count) const;
  // Returns the length of the sum for an output of a phase, in a group.
  int64_t depth(int64_t phase) const;

 private:
  AxisExtent extent(bool vertical) const;
};

// Cuts an implicit GEMM into tasks, from the shape alone: one task is `images` whole images, or
// phase rows (q) of one image, at most `rows`. Few pixels with large filters may be a single task,
// few pixels of many images some large ones.
struct ImplicitGemmTiling {
  ImplicitGemmTiling(const ConvGeometry& geometry, DType dtype);

  bool filters_stay;  // in L2, next to a block
  bool by_channels;   // all input is copied first, and threads cut tasks by channels, too
  int64_t images, rows, blocks_per_image;
  int64_t tasks;
  int64_t block_h;      // rows of input that a task copies, for each image
  int64_t count, unit;  // phase rows of an image, and those of which blocks are multiples

  // Returns the first phase row of block `i` of an image; for i = blocks_per_image their number.
  int64_t first_row(int64_t i) const {
    return std::min(ceil_div(count, unit) * i / blocks_per_image * unit, count);
  }
  int64_t block_elements(const ConvGeometry& g) const {
    return images * block_h * g.block_w * g.in_c;
  }
  // Returns the elements of the result of a task, which are contiguous.
  int64_t result_elements(const ConvGeometry& g) const {
    return images * std::min(rows * g.out_step_h, g.out_h) * g.out_w * g.out_c;
  }
};

// Packs the filters [channel][tap] of a phase of a depthwise convolution as [tap][channel]; returns
// their end.
template <class T, class Packed>
Packed* pack_depthwise(const ConvShape& s, const ConvPhase& p, const T* filters, Packed* to) {
  for (int64_t t = 0; t < p.taps(); ++t, to += s.c) {
    const T* tap = filters + p.filter_tap(t, s.kw);
    for (int64_t c = 0; c < s.c; ++c) to[c] = tap[c * s.kh * s.kw];
  }
  return to;
}

// Rows [first_row, first_row + rows) and columns [first_column, first_column + columns) of an image
// [h, w, c].
struct PaddedPart {
  int64_t h, w, c, first_row, first_column, rows, columns;
};

// Fills a dense block with a part of an image, and with zeros outside the image. read(to, first,
// count) writes elements [first, first + count) of the image to `to`.
template <class T, class Read>
void copy_padded(const PaddedPart& p, T* block, Read read) {
  const int64_t top = std::clamp<int64_t>(-p.first_row, 0, p.rows);
  const int64_t bottom = std::clamp<int64_t>(p.h - p.first_row, top, p.rows);
  const int64_t left = std::clamp<int64_t>(-p.first_column, 0, p.columns);
  const int64_t end = std::clamp<int64_t>(p.w - p.first_column, left, p.columns);
  const int64_t length = p.columns * p.c;
  const auto at = [&](int64_t row) {
    return ((p.first_row + row) * p.w + p.first_column + left) * p.c;
  };
  std::memset(block, 0, top * length * sizeof(T));
  if (p.columns == p.w && left == 0 && end == p.w) {  // whole rows, in one call
    if (top < bottom) read(block + top * length, at(top), (bottom - top) * length);
  } else {
    for (int64_t r = top; r < bottom; ++r) {
      T* row = block + r * length;
      std::memset(row, 0, left * p.c * sizeof(T));
      if (left < end) read(row + left * p.c, at(r), (end - left) * p.c);
      std::memset(row + end * p.c, 0, (p.columns - end) * p.c * sizeof(T));
    }
  }
  std::memset(block + bottom * length, 0, (p.rows - bottom) * length * sizeof(T));
}

}  // namespace tessera
