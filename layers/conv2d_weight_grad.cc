#include "tessera/layers/conv2d_weight_grad.h"

#include <algorithm>
#include <cstring>

#include "tessera/layers/conv2d_gather.h"
#include "tessera/layers/conv2d_simd.h"
#include "tessera/layers/shared/gemm_simd.h"
#include "tessera/layers/shared/integers.h"
#include "tessera/layers/shared/scratch_layout.h"

namespace tessera {
namespace {

constexpr int64_t kSumBytes = 192 << 10;  // a task's part of dw: stays in a small L2
constexpr int64_t kPixels = 192;          // of a block: its tile of x stays in L1
constexpr int64_t kFilters = 256;         // of a task at most: packing x for them pays
constexpr int64_t kJoinBytes = 16 << 10;  // joined rows of a block: half of L1
constexpr int64_t kDyBytes = 192 << 10;   // packed dy of a block
constexpr int64_t kDirectBytes = 128;     // pixels up to this size are read where they lie
constexpr int64_t kTasks = 32;            // wanted, so that many threads find work
constexpr int64_t kTaskWork = 1 << 18;    // products worth waking a thread for
constexpr int64_t kPartialBytes = 8 << 20;

template <class T>
const GemmMicrokernelsOf<T>& microkernels() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(gemm_microkernels));
}

template <class T>
const DepthwiseMicrokernelsOf<T>& depthwise() {
  return microkernels_for<T>(TESSERA_SELECT_MICROKERNELS(depthwise_microkernels));
}

template <class T>
struct Buffers {
  T* partial;        // [run][weights]
  T* x;              // per thread: a padded block, or a packed tile
  T* dy;             // per thread: quads of a block
  int64_t* offsets;  // of the taps, for depthwise
  int64_t x_stride, dy_stride;
  size_t size;
};

template <class T>
Buffers<T> lay_out(const WeightGradPlan& plan, int threads, void* scratch) {
  const ConvShape& s = plan.shape;
  ScratchLayout layout(scratch);
  Buffers<T> b{};
  const int64_t slack = 3 * plan.lanes;  // whole vectors may be read past the last pixel
  if (!plan.direct) b.x_stride = plan.block_pixels * slack;
  if (plan.padded) b.x_stride = plan.padded_elements() + plan.block_pixels * plan.join_width;
  const int64_t filters = ceil_div(plan.cut_filters, plan.row_tile) * plan.row_tile;
  if (plan.pack_dy) b.dy_stride = plan.block_pixels * filters;
  b.x_stride = round_up(b.x_stride, 16), b.dy_stride = round_up(b.dy_stride, 16);
  if (plan.runs > 1 || plan.depthwise) b.partial = layout.take<T>(plan.runs * plan.weights());
  if (plan.depthwise) b.offsets = layout.take<int64_t>(s.kh * s.kw);
  b.x = layout.take<T>(b.x_stride * threads);
  b.dy = layout.take<T>(b.dy_stride * threads);
  b.size = layout.size();
  return b;
}

struct Tile {
  int64_t row, column, columns;  // filter row u; first of its kw * c / groups columns
  int vectors;
};

Tile tile_of(const WeightGradPlan& plan, int64_t index) {
  const int64_t within = index % plan.row_tiles;
  const int64_t first = within * plan.vectors / plan.row_tiles;
  const int64_t last = (within + 1) * plan.vectors / plan.row_tiles;
  Tile tile;
  tile.row = index / plan.row_tiles;
  tile.column = first * plan.lanes;
  tile.columns = std::min(last * plan.lanes, plan.row_columns) - tile.column;
  tile.vectors = static_cast<int>(last - first);
  return tile;
}

// Copies the columns of a tile for output pixels [first, last) of row y of an image, with zeros
// where a tap lies outside.
template <class T>
void pack_row(const WeightGradPlan& plan, const Tile& tile, int64_t group, const T* image,
              int64_t y, int64_t first, int64_t last, T* to) {
  const ConvShape& s = plan.shape;
  const int64_t channels = s.c / s.groups, width = tile.vectors * plan.lanes;
  const int64_t row = y * s.stride_h - s.pad_h + tile.row * s.dilation_h;
  int64_t column = tile.column, left = tile.columns;
  while (left > 0) {
    const int64_t tap = column / channels, k = column % channels;
    const int64_t length = std::min(left, channels - k);
    const int64_t shift = tap * s.dilation_w - s.pad_w;  // input column = x * stride + shift
    int64_t begin = last, end = last;
    if (row >= 0 && row < s.h && s.w > shift) {
      begin = shift < 0 ? ceil_div(-shift, s.stride_w) : 0;
      end = (s.w - 1 - shift) / s.stride_w + 1;
      begin = std::clamp(begin, first, last), end = std::clamp(end, begin, last);
    }
    for (int64_t x = first; x < begin; ++x)
      std::memset(to + (x - first) * width, 0, length * sizeof(T));
    if (begin < end)
      microkernels<T>().copy_points(
          image + (row * s.w + begin * s.stride_w + shift) * s.c + group * channels + k,
          s.stride_w * s.c, end - begin, length, to + (begin - first) * width, width);
    for (int64_t x = end; x < last; ++x)
      std::memset(to + (x - first) * width, 0, length * sizeof(T));
    to += length, column += length, left -= length;
  }
  if (tile.columns < width)
    for (int64_t x = first; x < last; ++x)
      std::memset(to + (x - first) * width, 0, (width - tile.columns) * sizeof(T));
}

template <class T>
void pack_tile(const WeightGradPlan& plan, const Tile& tile, int64_t group, const T* x,
               int64_t first, int64_t count, T* to) {
  const ConvShape& s = plan.shape;
  const int64_t width = tile.vectors * plan.lanes;
  for (int64_t pixel = first; pixel < first + count;) {
    const int64_t row = pixel / plan.out_w, column = pixel % plan.out_w;
    const int64_t length = std::min(plan.out_w - column, first + count - pixel);
    pack_row(plan, tile, group, x + row / plan.out_h * s.h * s.w * s.c, row % plan.out_h, column,
             column + length, to);
    to += length * width, pixel += length;
  }
}

// The pixels of block `index`: packed blocks are cut from all pixels in a row, direct ones are rows
// of an image.
struct Block {
  int64_t image, row, rows, first_pixel, pixels;
};

Block block_of(const WeightGradPlan& plan, int64_t index) {
  Block b{};
  if (plan.direct) {
    b.image = index / plan.blocks_per_image;
    b.row = index % plan.blocks_per_image * plan.block_rows;
    b.rows = std::min(plan.block_rows, plan.out_h - b.row);
    b.first_pixel = (b.image * plan.out_h + b.row) * plan.out_w;
    b.pixels = b.rows * plan.out_w;
  } else {
    b.first_pixel = index * plan.block_pixels;
    b.pixels = std::min(plan.block_pixels, plan.shape.n * plan.out_h * plan.out_w - b.first_pixel);
  }
  return b;
}

// Where a direct block's first tap lies, and the distance of the rows.
template <class T>
const T* block_start(const WeightGradPlan& plan, const Block& b, const T* x, T* buffer,
                     int64_t& row_length) {
  const ConvShape& s = plan.shape;
  const T* image = x + b.image * s.h * s.w * s.c;
  row_length = s.w * s.c;
  if (!plan.padded) return image + b.row * s.stride_h * row_length;
  row_length = plan.padded_columns() * s.c;
  const int64_t rows = (b.rows - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1;
  copy_padded(image, s.h, s.w, s.c, b.row * s.stride_h - s.pad_h, -s.pad_w, rows,
              plan.padded_columns(), buffer);
  return buffer;
}

// Puts the rows of each pixel's window next to each other. Whole vectors are copied: the next row
// overwrites what is too much.
template <class T>
void join_rows(const WeightGradPlan& plan, const Block& b, const T* start, int64_t row_length,
               T* to) {
  const ConvShape& s = plan.shape;
  const int64_t columns = s.kw * s.c, whole = ceil_div(columns, plan.lanes) * plan.lanes;
  for (int64_t u = 0; u < s.kh; ++u)
    for (int64_t y = 0; y < b.rows; ++y)
      microkernels<T>().copy_points(start + (y * s.stride_h + u * s.dilation_h) * row_length,
                              s.stride_w * s.c, plan.out_w, whole,
                              to + y * plan.out_w * plan.join_width + u * columns, plan.join_width);
}

// What a task sums: some tiles of some filters of a group, over a run of blocks.
struct Part {
  int64_t run, group, first_filter, filters, first_tile, last_tile;
};

// Adds one block of pixels to a part of `sum`.
template <class T>
void add_block(const WeightGradPlan& plan, const Block& b, const Part& part, const T* x,
               const T* dy, bool accumulate, T* x_buffer, T* dy_buffer, T* sum) {
  const ConvShape& s = plan.shape;
  const GemmMicrokernelsOf<T>& microkernel = microkernels<T>();
  const int64_t first = part.group * (s.o / s.groups) + part.first_filter;
  const int64_t filter = plan.rows * plan.row_columns;
  OuterProduct<T> product{};
  product.a = dy + b.first_pixel * s.o + first;
  product.a_point = s.o, product.a_quad = plan.row_tile;
  if (plan.pack_dy) {
    microkernel.pack_quads(product.a, s.o, b.pixels, part.filters, dy_buffer);
    product.a = dy_buffer;
    product.a_point = plan.row_tile, product.a_quad = plan.row_tile * b.pixels;
  }
  product.rows = part.filters, product.c_stride = filter, product.accumulate = accumulate;
  int64_t row_length = 0;
  const T* start = plan.direct ? block_start(plan, b, x, x_buffer, row_length) : x_buffer;
  T* joined = x_buffer + plan.padded_elements();
  if (plan.joined) join_rows(plan, b, start, row_length, joined);
  for (int64_t t = part.first_tile; t < part.last_tile; ++t) {
    const Tile tile = tile_of(plan, t);
    product.vectors = tile.vectors, product.columns = tile.columns;
    if (plan.joined) {
      product.b = joined + tile.column, product.b_point = plan.join_width;
      product.lines = 1, product.points = b.pixels;
    } else if (plan.direct) {
      product.b = start + tile.row * s.dilation_h * row_length + tile.column;
      product.b_line = s.stride_h * row_length, product.b_point = s.stride_w * s.c;
      product.lines = b.rows, product.points = plan.out_w;
    } else {
      pack_tile(plan, tile, part.group, x, b.first_pixel, b.pixels, x_buffer);
      product.b = x_buffer, product.b_line = 0, product.b_point = tile.vectors * plan.lanes;
      product.lines = 1, product.points = b.pixels;
    }
    product.c = sum + first * filter + tile.row * plan.row_columns + tile.column;
    microkernel.outer(product);
  }
}

Part part_of(const WeightGradPlan& plan, int64_t task) {
  Part part{};
  part.run = task % plan.runs, task /= plan.runs;
  part.first_tile = task % plan.slices * plan.slice_tiles, task /= plan.slices;
  part.last_tile = std::min(part.first_tile + plan.slice_tiles, plan.tiles());
  part.first_filter = task % plan.cuts * plan.cut_filters, part.group = task / plan.cuts;
  part.filters = std::min(plan.cut_filters, plan.shape.o / plan.shape.groups - part.first_filter);
  return part;
}

template <class T>
void run_part(const WeightGradPlan& plan, const Part& part, const Buffers<T>& buffers, int thread,
              const T* x, const T* dy, T* dw) {
  const ConvShape& s = plan.shape;
  T* sum = buffers.partial ? buffers.partial + part.run * plan.weights() : dw;
  T* x_buffer = buffers.x + thread * buffers.x_stride;
  T* dy_buffer = buffers.dy + thread * buffers.dy_stride;
  const int64_t begin = plan.blocks * part.run / plan.runs;
  const int64_t end = plan.blocks * (part.run + 1) / plan.runs;
  for (int64_t i = begin; i < end; ++i) {
    const Block b = block_of(plan, i);
    if (!plan.depthwise) {
      add_block(plan, b, part, x, dy, i > begin, x_buffer, dy_buffer, sum);
      continue;
    }
    int64_t row_length = 0;
    const T* start = block_start(plan, b, x, x_buffer, row_length);
    depthwise<T>().outer({dy + b.first_pixel * s.c, start, s.stride_h * row_length,
                          s.stride_w * s.c, b.rows, plan.out_w, buffers.offsets, s.kh * s.kw, s.c,
                          sum, i > begin});
  }
}

template <class T>
void fold(ThreadPool& pool, const WeightGradPlan& plan, const T* partial, T* dw) {
  const int64_t weights = plan.weights(), share = 4096;
  const int64_t taps = plan.shape.kh * plan.shape.kw, channels = plan.shape.c;
  pool.parallel_for(ceil_div(weights, share), [&](int64_t task) {
    const int64_t begin = task * share, end = std::min(weights, begin + share);
    if (plan.depthwise) {  // partial sums are [tap][channel], dw is [channel][tap]
      for (int64_t i = begin; i < end; ++i) {
        T sum = 0;
        for (int64_t r = 0; r < plan.runs; ++r)
          sum += partial[r * weights + i % taps * channels + i / taps];
        dw[i] = sum;
      }
      return;
    }
    std::memcpy(dw + begin, partial + begin, (end - begin) * sizeof(T));
    for (int64_t r = 1; r < plan.runs; ++r)
      for (int64_t i = begin; i < end; ++i) dw[i] += partial[r * weights + i];
  });
}

template <class T>
void cut(WeightGradPlan& plan) {
  const ConvShape& s = plan.shape;
  const int64_t size = sizeof(T), pixels = s.n * plan.out_h * plan.out_w, tiles = plan.tiles();
  int64_t filters = s.o / s.groups;
  plan.cuts = ceil_div(filters, kFilters);
  filters = ceil_div(ceil_div(filters, plan.cuts), plan.row_tile) * plan.row_tile;
  plan.cut_filters = filters = std::min(filters, s.o / s.groups);
  plan.cuts = ceil_div(s.o / s.groups, filters);
  if (!plan.depthwise) {
    plan.slice_tiles = std::clamp<int64_t>(kSumBytes / (filters * 3 * plan.lanes * size), 1, tiles);
    plan.slices = ceil_div(tiles, plan.slice_tiles);
    plan.slice_tiles = ceil_div(tiles, plan.slices),
    plan.slices = ceil_div(tiles, plan.slice_tiles);
  } else {
    plan.slices = plan.slice_tiles = 1;
  }
  if (plan.direct) {
    const int64_t most =
        plan.joined ? std::min(kPixels, kJoinBytes / (plan.join_width * size)) : kPixels;
    plan.block_rows = std::clamp<int64_t>(most / plan.out_w, 1, plan.out_h);
    plan.blocks_per_image = ceil_div(plan.out_h, plan.block_rows);
    plan.block_rows = ceil_div(plan.out_h, plan.blocks_per_image);
    plan.block_pixels = plan.block_rows * plan.out_w;
    plan.blocks = s.n * plan.blocks_per_image;
  } else {
    plan.block_pixels = std::clamp<int64_t>(kDyBytes / (filters * size), 32, kPixels);
    plan.block_pixels = std::min(plan.block_pixels, pixels);
    plan.blocks = ceil_div(pixels, plan.block_pixels);
  }
  const int64_t groups = plan.depthwise ? 1 : s.groups;
  const int64_t tasks = std::clamp<int64_t>(plan.weights() * pixels / kTaskWork, 1, kTasks);
  plan.runs = std::min(ceil_div(tasks, plan.slices * plan.cuts * groups),
                       kPartialBytes / (plan.weights() * size));
  plan.runs = std::clamp<int64_t>(plan.runs, 1, plan.blocks);
}

}  // namespace

template <class T>
WeightGradPlan plan_weight_grad(const ConvShape& given) {
  WeightGradPlan plan{};
  ConvShape& s = plan.shape = given;
  if (s.kh == 1 && s.kw == 1 && s.stride_h == 1 && s.stride_w == 1 && !s.pad_h && !s.pad_w) {
    s.w *= s.n * s.h, s.n = s.h = 1;  // pixels are independent: one long row
  }
  plan.out_h = s.out_h(), plan.out_w = s.out_w();
  plan.lanes = microkernels<T>().lanes, plan.row_tile = microkernels<T>().row_tile;
  plan.depthwise = s.groups > 1 && s.groups == s.c && s.groups == s.o;
  plan.rows = s.kh, plan.row_columns = s.kw * (s.c / s.groups);
  plan.vectors = ceil_div(plan.row_columns, plan.lanes);
  const bool pointwise = s.h == 1 && s.kh == 1 && s.kw == 1;  // rows could be endless
  plan.direct =
      plan.depthwise || (!pointwise && s.groups == 1 && (s.dilation_w == 1 || s.kw == 1) &&
                         s.c * static_cast<int64_t>(sizeof(T)) <= kDirectBytes);
  plan.padded =
      plan.direct && (s.pad_h || s.pad_w || (!plan.depthwise && plan.row_columns % plan.lanes));
  const int64_t all = ceil_div(plan.row_columns * s.kh, plan.lanes);
  if (plan.padded && !plan.depthwise && 5 * all < 4 * plan.vectors * s.kh + 4) {
    plan.joined = true;
    plan.join_width = (plan.row_columns * (s.kh - 1) + plan.vectors * plan.lanes + plan.lanes - 1) /
                      plan.lanes * plan.lanes;
    plan.rows = 1, plan.row_columns *= s.kh, plan.vectors = all;
  }
  plan.row_tiles = ceil_div(plan.vectors, 3);
  plan.pack_dy = !plan.depthwise && (s.o % plan.row_tile || s.groups > 1 ||
                                     s.o * static_cast<int64_t>(sizeof(T)) > kDirectBytes);
  if (s.n * plan.out_h * plan.out_w * plan.weights() > 0) cut<T>(plan);
  return plan;
}

template <class T>
size_t weight_grad_scratch(const WeightGradPlan& plan, int threads) {
  return lay_out<T>(plan, threads, nullptr).size;
}

template <class T>
void run_weight_grad(ThreadPool& pool, const WeightGradPlan& plan, const T* x, const T* dy, T* dw,
                     void* scratch) {
  const ConvShape& s = plan.shape;
  if (plan.blocks == 0) {  // no pixels: nothing to sum
    std::memset(dw, 0, plan.weights() * sizeof(T));
    return;
  }
  const Buffers<T> buffers = lay_out<T>(plan, pool.size(), scratch);
  const int64_t groups = plan.depthwise ? 1 : s.groups;
  if (plan.depthwise) {
    const int64_t row_length = (plan.padded ? plan.padded_columns() : s.w) * s.c;
    for (int64_t t = 0; t < s.kh * s.kw; ++t)
      buffers.offsets[t] = t / s.kw * s.dilation_h * row_length + t % s.kw * s.dilation_w * s.c;
  }
  const int64_t parts = groups * plan.cuts * plan.slices;
  pool.parallel_for_thread(parts * plan.runs, [&](int64_t task, int thread) {
    run_part(plan, part_of(plan, task), buffers, thread, x, dy, dw);
  });
  if (buffers.partial) fold(pool, plan, buffers.partial, dw);
}

#define TESSERA_WEIGHT_GRAD(T)                                        \
  template WeightGradPlan plan_weight_grad<T>(const ConvShape&);      \
  template size_t weight_grad_scratch<T>(const WeightGradPlan&, int); \
  template void run_weight_grad(ThreadPool&, const WeightGradPlan&, const T*, const T*, T*, void*);
TESSERA_WEIGHT_GRAD(float)
TESSERA_WEIGHT_GRAD(double)

}  // namespace tessera
