// The direct gradient of a convolution with respect to its filters.
#pragma once

#include "tessera/layers/conv2d/cpu/convolution.h"

namespace tessera {

// Returns true for 1x1 filters, if tiles of x are copied anyway. Each task applies the prologue to
// its tiles' channels of each block of pixels; pairs take so much less time that only one may.
bool weight_grad_takes_prologue(const ConvRequest& request);
// Returns true if tiles of x are copied anyway, which can then pair the pixels.
bool weight_grad_takes_pairs(const ConvRequest& request);
std::unique_ptr<AnyConvolution> make_weight_grad(const ConvRequest& request, ConvVariant form);

// Cuts the gradient into tasks, from the shape alone.
//
// df[q, u, v, k] sums, over all output pixels, dy's channel q times x's channel k at tap (u, v): a
// product of dy^T with the matrix of x's patches:
//
//              kh * kw * c / groups columns, cut into tiles of up to three vectors
//            +------+------+------+-- --+
//   filters  | tile | tile | tile |     |     a task: `slice_tiles` tiles of `cut_filters`
//   of a     |      |      |      |     |     filters, over one of `runs` parts of the pixels
//   group    +------+------+------+-- --+
//
// Several runs have partial sums, which are reduced in order.
struct WeightGradTiling {
  WeightGradTiling(const ConvShape& shape, DType dtype);

  static constexpr int64_t kRowTile = 8;      // filters of a micro-panel of dy
  static constexpr int64_t kMaxPixels = 384;  // maximum of a block of packed tiles

  ConvShape shape;
  int64_t lanes;  // sums of a vector of 64 bytes
  int64_t out_h = 0, out_w = 0;
  bool direct = false;   // read x in place (or in its padded block) without packing tiles
  bool padded = false;   // direct: copy rows of x into a block with zeros around them
  bool pack_dy = false;  // pack dy into micro-panels of filters; else read it in place
  bool pairs = false;    // pack pairs of pixels
  bool joined = false;   // direct, rows so short that all of a filter's rows are joined per pixel
  int64_t rows = 0, row_columns = 0;    // df's columns: kh rows of kw * c / groups, or all in one
  int64_t join_width = 0;               // distance of two pixels' joined rows
  int64_t vectors = 0;                  // whole vectors of a row's columns
  int64_t row_tiles = 0;                // tiles that share these vectors
  int64_t slices = 0, slice_tiles = 0;  // parts of the tiles; tiles of a task
  int64_t cuts = 0, cut_filters = 0;    // parts of a group's filters; filters of a task
  int64_t block_rows = 0, blocks_per_image = 0;  // direct: a block is rows of an image
  int64_t block_pixels = 0;                      // maximum pixels of a block
  int64_t blocks = 0, runs = 0;                  // number of blocks, and of runs of blocks

  int64_t tiles() const { return row_tiles * rows; }
  int64_t padded_rows() const {
    return (block_rows - 1) * shape.stride_h + (shape.kh - 1) * shape.dilation_h + 1;
  }
  int64_t padded_columns() const {
    return (out_w - 1) * shape.stride_w + (shape.kw - 1) * shape.dilation_w + 1;
  }
  // Includes space for whole vectors that are read past the last pixel.
  int64_t padded_elements() const {
    return padded ? padded_rows() * padded_columns() * shape.c + 3 * lanes : 0;
  }

 private:
  void cut(int64_t size);
};

}  // namespace tessera
