#include <algorithm>

#include "tessera/layers/conv2d/cpu/weight_grad.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// A task's part of df, which stays in the smallest known L2 (512 KB) next to its inputs.
constexpr int64_t kSumBytes = 192 << 10;
// Pixels of a block: their tile of x, three vectors of 64 bytes wide, stays in 48 KB of L1, and so
// do twice as many in 16 bits.
constexpr int64_t kPixels = WeightGradTiling::kMaxPixels / 2;
// Maximum filters of a task; each packed tile of x serves all of them.
constexpr int64_t kFilters = 256;
// Joined rows of a block: half of 32 KB of L1.
constexpr int64_t kJoinBytes = 16 << 10;
// dy of a block, which each tile reads again: next to the sums in L2.
constexpr int64_t kDyBytes = 192 << 10;
// Pixels up to this size, two cache lines, are read in place, as packing gains nothing.
constexpr int64_t kDirectBytes = 128;
// Target number of tasks: two for each of 16 threads, to balance the load.
constexpr int64_t kWeightGradTasks = 32;
// Products that one core computes in about 5 microseconds, the time to wake a thread.
constexpr int64_t kWeightGradTaskWork = 1 << 18;
// Maximum bytes of all partial sums, which are written and read once more.
constexpr int64_t kPartialBytes = 8 << 20;

}  // namespace

void WeightGradTiling::cut(int64_t size) {
  const ConvShape& s = shape;
  const int64_t pixels = s.pixels(), all = tiles();
  int64_t filters = s.o / s.groups;
  cuts = ceil_div(filters, kFilters);
  filters = round_up(ceil_div(filters, cuts), kRowTile);
  cut_filters = filters = std::min(filters, s.o / s.groups);
  cuts = ceil_div(s.o / s.groups, filters);
  if (!s.depthwise()) {
    slice_tiles = std::clamp<int64_t>(kSumBytes / (filters * 3 * 64), 1, all);
    slices = ceil_div(all, slice_tiles);
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
    if (pairs) block_pixels = round_up(block_pixels, 2);
    block_pixels = std::min(block_pixels, pixels);
    blocks = ceil_div(pixels, block_pixels);
  }
  const int64_t groups = s.depthwise() ? 1 : s.groups;
  const int64_t tasks =
      std::clamp<int64_t>(s.weights() * pixels / kWeightGradTaskWork, 1, kWeightGradTasks);
  runs =
      std::min(ceil_div(tasks, slices * cuts * groups), kPartialBytes / (s.weights() * 64 / lanes));
  runs = std::clamp<int64_t>(runs, 1, blocks);
}

WeightGradTiling::WeightGradTiling(const ConvShape& given, DType dtype)
    : shape(given), lanes(64 / bytes_of(compute_type(dtype))), pairs(is_half(dtype)) {
  ConvShape& s = shape;
  const int64_t size = bytes_of(dtype);
  if (s.pointwise()) s.w *= s.n * s.h, s.n = s.h = 1;  // pixels are independent: one long row
  out_h = s.out_h(), out_w = s.out_w();
  rows = s.kh, row_columns = s.kw * (s.c / s.groups);
  vectors = ceil_div(row_columns, lanes);
  const bool pointwise = s.h == 1 && s.kh == 1 && s.kw == 1;  // rows may have any length
  direct = s.depthwise() || (!pointwise && !pairs && s.groups == 1 &&
                             (s.dilation_w == 1 || s.kw == 1) && s.c * size <= kDirectBytes);
  padded = direct && (s.pad_h || s.pad_w || (!s.depthwise() && row_columns % lanes));
  const int64_t all = ceil_div(row_columns * s.kh, lanes);
  if (padded && !s.depthwise() && 5 * all < 4 * vectors * s.kh + 4) {
    joined = true;
    join_width = (row_columns * (s.kh - 1) + vectors * lanes + lanes - 1) / lanes * lanes;
    rows = 1, row_columns *= s.kh, vectors = all;
  }
  row_tiles = ceil_div(vectors, 3);
  pack_dy = pairs || (!s.depthwise() && (s.o % kRowTile || s.groups > 1));
  if (s.pixels() * s.weights() > 0) cut(size);
}

}  // namespace tessera
