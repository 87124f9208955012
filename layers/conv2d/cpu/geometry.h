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

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/runtime/integers.h"

namespace tessera {

// One axis of a phase. Output coordinate `first + q * out_step` (q < count) gathers the input
// coordinates q * in_step + base + t * spacing, t < taps. Tap t is filter coordinate
// first_tap + t * tap_step.
struct ConvAxis {
  int64_t first = 0, count = 0, base = 0, spacing = 1, taps = 0;
  int64_t first_tap = 0, tap_step = 1;
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
  bool joins_taps;  // the taps of a filter row read one run of consecutive elements

  ConvAxis axis(bool vertical, int64_t phase) const;
  // Returns the number of input rows that `count` phase rows read.
  int64_t block_rows(int64_t count) const;
  // Returns the length of the sum for an output of a phase, in a group.
  int64_t depth(int64_t phase) const;

 private:
  AxisExtent extent(bool vertical) const;
};

// Cuts an implicit GEMM into tasks, from the shape alone: one task is `images` whole images, or
// phase rows (q) of one image, at most `rows`.
struct ImplicitGemmTiling {
  ImplicitGemmTiling(const ConvGeometry& geometry, DType dtype);

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

// Returns the number of chunks that a sum of `depth` products is cut into.
int64_t chunk_count(int64_t depth, DType dtype);
// Returns the output channels that are computed before the next chunk begins.
int64_t columns_together(DType dtype);
// Returns the number of tasks, at most `most`, for packing `elements` filter elements.
int64_t packing_tasks(int64_t elements, int64_t most);

}  // namespace tessera
