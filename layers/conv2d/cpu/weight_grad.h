// The direct gradient of a convolution with respect to its filters.
#pragma once

#include <algorithm>
#include <bit>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/shared/gemm_simd.h"
#include "tessera/runtime/integers.h"

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
  WeightGradTiling(const ConvShape& given, DType dtype)
      : shape(given), lanes(64 / bytes_of(compute_type(dtype))), pairs(is_half(dtype)) {
    ConvShape& s = shape;
    const int64_t size = bytes_of(dtype);
    if (s.pointwise()) s.w *= s.n * s.h, s.n = s.h = 1;  // pixels are independent: one long row
    out_h = s.out_h(), out_w = s.out_w();
    rows = s.kh, row_columns = s.kw * (s.c / s.groups);
    vectors = ceil_div(row_columns, lanes);
    const bool pointwise = s.h == 1 && s.kh == 1 && s.kw == 1;  // rows may have any length
    direct = s.depthwise() || (!pointwise && s.groups == 1 && (s.dilation_w == 1 || s.kw == 1) &&
                               s.c * size <= kDirectBytes);
    padded = direct && (s.pad_h || s.pad_w || (!s.depthwise() && row_columns % lanes));
    const int64_t all = ceil_div(row_columns * s.kh, lanes);
    joined = padded && !s.depthwise() && 5 * all < 4 * vectors * s.kh + 4;
    if (pairs && !s.depthwise()) {  // pairs are within a row
      joined = joined && out_w % 2 == 0;
      direct = padded = joined;
    }
    if (joined) {
      join_width = (row_columns * (s.kh - 1) + vectors * lanes + lanes - 1) / lanes * lanes;
      rows = 1, row_columns *= s.kh, vectors = all;
    }
    by_position = !direct && s.n >= kManyImages &&
                  10 * s.column_taps() * s.row_taps() <= 7 * out_h * s.kh * out_w * s.kw;
    row_tiles = ceil_div(vectors, 3);
    pack_dy = pairs || (!s.depthwise() && (s.o % kMicroPanelRows || s.groups > 1));
    if (s.pixels() * s.weights() > 0) cut(size);
  }

  static constexpr int64_t kMaxPixels = 386;  // maximum of a block of packed tiles

  ConvShape shape;
  int64_t lanes;  // sums of a vector of 64 bytes
  int64_t out_h = 0, out_w = 0;
  bool direct = false;       // read x in place (or in its padded block) without packing tiles
  bool padded = false;       // direct: copy rows of x into a block with zeros around them
  bool pack_dy = false;      // pack dy into micro-panels of filters; else read it in place
  bool pairs = false;        // pack pairs of pixels
  bool by_position = false;  // a block is one pixel of many images: few of its taps are inside
  bool joined = false;  // direct, rows so short that all of a filter's rows are joined per pixel
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

  struct Tile {
    int64_t row, column, columns;  // filter row u; first of its kw * c / groups columns
    int vectors;
  };

  // The pixels of a block: packed blocks are cut from the sequence of all pixels, or are one pixel
  // (row, column) of several images. Direct blocks are rows of an image.
  struct Block {
    int64_t image, row, column, rows, first_pixel, pixels;
  };

  // The work of a task: some tiles of some filters of a group, over a run of blocks.
  struct Part {
    int64_t run, group, first_filter, filters, first_tile, last_tile;
  };

  // The columns of x in a part's tiles, pixel by pixel.
  struct Columns {
    int64_t first, count;
  };

  Tile tile(int64_t index) const {
    const int64_t within = index % row_tiles;
    const int64_t first = within * vectors / row_tiles;
    const int64_t last = (within + 1) * vectors / row_tiles;
    Tile t;
    t.row = index / row_tiles;
    t.column = first * lanes;
    t.columns = std::min(last * lanes, row_columns) - t.column;
    t.vectors = static_cast<int>(last - first);
    return t;
  }

  Block block(int64_t index) const {
    Block b{};
    if (direct) {
      b.image = index / blocks_per_image;
      b.row = index % blocks_per_image * block_rows;
      b.rows = std::min(block_rows, out_h - b.row);
      b.first_pixel = (b.image * out_h + b.row) * out_w;
      b.pixels = b.rows * out_w;
    } else if (by_position) {
      const int64_t of_image = out_h * out_w, position = index % of_image;
      b.image = index / of_image * block_pixels, b.rows = 1;
      b.row = position / out_w, b.column = position % out_w;
      b.first_pixel = b.image * of_image + position;
      b.pixels = std::min(block_pixels, shape.n - b.image);
    } else {
      b.first_pixel = index * block_pixels;
      b.pixels = std::min(block_pixels, shape.n * out_h * out_w - b.first_pixel);
    }
    return b;
  }

  Part part(int64_t task) const {
    Part p{};
    p.run = task % runs, task /= runs;
    p.first_tile = task % slices * slice_tiles, task /= slices;
    p.last_tile = std::min(p.first_tile + slice_tiles, tiles());
    p.first_filter = task % cuts * cut_filters, p.group = task / cuts;
    p.filters = std::min(cut_filters, shape.o / shape.groups - p.first_filter);
    return p;
  }

  Columns columns_of(const Part& part) const {
    const int64_t first = tile(part.first_tile).column;
    const Tile last = tile(part.last_tile - 1);
    return {first, last.column + last.columns - first};
  }

 private:
  // A task's part of df, which stays in the smallest known L2 (512 KB) next to its inputs. Of
  // pairs, which processors with 1 MB or more multiply, it has twice as much: dy is packed for each
  // part.
  static constexpr int64_t kSumBytes = 192 << 10;
  // Pixels of a block: their tile of x, three vectors of 64 bytes wide, stays in 48 KB of L1, and
  // so do twice as many in 16 bits.
  static constexpr int64_t kPixels = 192;
  // Maximum filters of a task; each packed tile of x serves all of them.
  static constexpr int64_t kFilters = 256;
  // Joined rows of a block: half of 32 KB of L1.
  static constexpr int64_t kJoinBytes = 16 << 10;
  // dy of a block, which each tile reads again: next to the sums in L2.
  static constexpr int64_t kDyBytes = 192 << 10;
  // Pixels up to this size, two cache lines, are read in place, as packing gains nothing.
  static constexpr int64_t kDirectBytes = 128;
  // Target number of tasks, of nearly equal size: one for each of 16 threads.
  static constexpr int64_t kTasks = 16;
  // Products that one core computes in about 5 microseconds, the time to wake a thread.
  static constexpr int64_t kTaskWork = 1 << 18;
  // Images that are enough for a block.
  static constexpr int64_t kManyImages = 64;
  // Maximum bytes of all partial sums, which are written and read once more.
  static constexpr int64_t kPartialBytes = 8 << 20;

  void cut(int64_t size) {
    const ConvShape& s = shape;
    const int64_t pixels = s.pixels(), all = tiles();
    int64_t filters = s.o / s.groups;
    cuts = ceil_div(filters, kFilters);
    filters = round_up(ceil_div(filters, cuts), kMicroPanelRows);
    cut_filters = filters = std::min(filters, s.o / s.groups);
    cuts = ceil_div(s.o / s.groups, filters);
    if (!s.depthwise()) {
      const int64_t most = (pairs ? 2 : 1) * kSumBytes / (filters * 3 * 64);
      slices = ceil_div(all, std::clamp<int64_t>(most, 1, all));
      slices = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(slices)));
      slice_tiles = ceil_div(all, slices), slices = ceil_div(all, slice_tiles);
    } else {
      slices = slice_tiles = 1;
    }
    if (direct) {
      const int64_t most = joined ? std::min(kPixels, kJoinBytes / (join_width * size)) : kPixels;
      block_rows = std::clamp<int64_t>(most / out_w, 1, out_h);
      blocks_per_image = ceil_div(out_h, block_rows);
      block_rows = ceil_div(out_h, blocks_per_image);
      block_pixels = block_rows * out_w;
      blocks = s.n * blocks_per_image;
    } else {
      block_pixels =
          std::clamp<int64_t>(kDyBytes / (filters * size), 32, pairs ? 2 * kPixels : kPixels);
      if (by_position) block_pixels = ceil_div(s.n, ceil_div(s.n, block_pixels));
      blocks = by_position ? ceil_div(s.n, block_pixels) * out_h * out_w
                           : ceil_div(pixels, block_pixels);
    }
    const int64_t groups = s.depthwise() ? 1 : s.groups;
    const int64_t tasks = std::clamp<int64_t>(s.weights() * pixels / kTaskWork, 1, kTasks);
    runs = std::min(ceil_div(tasks, slices * cuts * groups),
                    kPartialBytes / (s.weights() * 64 / lanes));
    runs = std::clamp<int64_t>(runs, 1, blocks);
    if (direct || by_position) return;
    // Runs have as many blocks, whose micro-panels are not a multiple of 1 KB apart: that would map
    // them to few sets of L1.
    block_pixels = ceil_div(pixels, round_up(blocks, runs));
    if (block_pixels % 64 == 0) ++block_pixels;
    if (pairs) block_pixels = round_up(block_pixels, 2);  // at most kMaxPixels
    blocks = ceil_div(pixels, block_pixels), runs = std::min(runs, blocks);
  }
};

}  // namespace tessera
