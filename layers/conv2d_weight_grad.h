// The gradient of a convolution with respect to its filters: dw[q, u, v, k] sums, over all output
// pixels, dy's channel q times x's channel k at tap (u, v). dw is cut into column tiles (some
// channels of some taps, all filters of a group), the pixels into blocks; a task is some tiles of
// some filters over a run of blocks. Several runs make partial sums, folded in their order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/layers/conv2d_cpu.h"

namespace tessera {

struct WeightGradPlan {
  ConvShape shape;
  int64_t out_h, out_w;
  bool depthwise;  // groups == c == o
  bool direct;     // read x where it lies (or in its padded block), instead of packing tiles of it
  bool padded;     // direct: copy rows of x into a block with zeros around them
  bool pack_dy;    // copy dy into quads of filters; else read it where it lies
  bool joined;     // direct, with rows so short that all of a filter's are joined per pixel
  int64_t rows, row_columns;    // of dw's columns: kh rows of kw * c / groups, or all in one row
  int64_t join_width;           // distance of two pixels' joined rows
  int64_t vectors;              // whole vectors of a row's columns
  int64_t row_tiles;            // tiles that these are dealt out to, up to three vectors each
  int64_t slices, slice_tiles;  // of the tiles; tiles of a task
  int64_t cuts, cut_filters;    // of a group's filters; filters of a task
  int64_t block_rows, blocks_per_image;  // direct: a block of pixels is some rows of an image
  int64_t block_pixels;                  // all: the most pixels of a block
  int64_t blocks, runs;                  // all blocks, and the runs that they are cut into
  int64_t lanes, row_tile;

  int64_t weights() const { return shape.o * shape.kh * shape.kw * (shape.c / shape.groups); }
  int64_t tiles() const { return row_tiles * rows; }
  int64_t padded_rows() const {
    return (block_rows - 1) * shape.stride_h + (shape.kh - 1) * shape.dilation_h + 1;
  }
  int64_t padded_columns() const {
    return (out_w - 1) * shape.stride_w + (shape.kw - 1) * shape.dilation_w + 1;
  }
  // Whole vectors may be read past the last pixel.
  int64_t padded_elements() const {
    return padded ? padded_rows() * padded_columns() * shape.c + 3 * lanes : 0;
  }
};

template <class T>
WeightGradPlan plan_weight_grad(const ConvShape& shape);

template <class T>
size_t weight_grad_scratch(const WeightGradPlan& plan, int threads);

template <class T>
void run_weight_grad(ThreadPool& pool, const WeightGradPlan& plan, const T* x, const T* dy, T* dw,
                     void* scratch);

}  // namespace tessera
