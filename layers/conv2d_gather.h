// What a convolution and its input gradient have in common: each pixel of the output gathers a
// small grid of input pixels, multiplied by packed filters. The gradient of a strided convolution
// falls into phases: output pixels whose distance from the origin has the same remainder share
// their taps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/layers/conv2d_cpu.h"

namespace tessera {

// One axis of a phase. Output coordinate `first + q * out_step` (q < count) gathers the input
// coordinates q * in_step + base + t * spacing, t < taps. Tap t is filter coordinate
// first_tap + t * tap_step.
struct GatherAxis {
  int64_t first = 0, count = 0, base = 0, spacing = 1, taps = 0;
  int64_t first_tap = 0, tap_step = 1;
};

// From the shape alone: how the work is cut. One task is `images` whole images, or `rows` phase
// rows (q) of one image.
struct GatherPlan {
  ConvShape shape;
  bool backward = false;        // input gradient: in = dy, out = dx
  int64_t n, in_h, in_w, in_c;  // what is gathered from
  int64_t out_h, out_w, out_c;  // what is written
  int64_t in_step_h, in_step_w, out_step_h, out_step_w;
  int64_t images, rows, blocks_per_image;
  int64_t phases;
  // The rows and columns of input that a task reads, relative to its first: the whole block is
  // copied with zeros around it, unless it lies within the image and `direct` is set.
  bool direct;
  int64_t base_h, base_w, block_h, block_w;
  bool depthwise;        // groups == c == o
  int64_t row_segments;  // whether a filter row is one segment: 1, or 0 for one per tap

  int64_t tasks() const;
  int64_t block_elements() const { return images * block_h * block_w * in_c; }
};

GatherPlan plan_gather(const ConvShape& shape, bool backward, size_t element);
GatherAxis gather_axis(const GatherPlan& plan, bool vertical, int64_t phase);

template <class T>
size_t gather_scratch(const GatherPlan& plan, int threads);

template <class T>
void run_gather(ThreadPool& pool, const GatherPlan& plan, const T* in, const T* filters, T* out,
                void* scratch, const Epilogue<T>* epilogue);

// Copies rows [first_row, first_row + rows) and columns [first_column, first_column + columns) of
// an image [h, w, c] into a dense block, with zeros for what lies outside.
template <class T>
void copy_padded(const T* image, int64_t h, int64_t w, int64_t c, int64_t first_row,
                 int64_t first_column, int64_t rows, int64_t columns, T* block);

}  // namespace tessera
