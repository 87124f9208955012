#include "tessera/layers/conv2d/cpu/weight_grad.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tessera/layers/conv2d/cpu/microkernels.h"
#include "tessera/layers/conv2d/cpu/padded_copy.h"
#include "tessera/layers/conv2d/cpu/partial_sums.h"
#include "tessera/layers/shared/scratch_layout.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

static_assert(WeightGradTiling::kRowTile == kMicroPanelRows);

template <class T>
struct WeightGradBuffers {
  Computed<T>* partial;  // [run][weights]
  T* x;                  // per thread: a padded block, or a packed tile
  T* made;               // per thread: a prologue's output for a block
  T* dy;                 // per thread: micro-panels of a block
  int64_t x_stride, made_stride, dy_stride;
  size_t size;
};

template <class T>
WeightGradBuffers<T> lay_out(const WeightGradTiling& tiling, ConvVariant form, int threads,
                             void* scratch) {
  ScratchLayout layout(scratch);
  WeightGradBuffers<T> b{};
  const int64_t slack = 3 * tiling.lanes;  // whole vectors may be read past the last pixel
  const int64_t pixels = round_up(tiling.block_pixels, kDepthStep<T>);
  if (!tiling.direct) b.x_stride = pixels * slack;
  if (tiling.padded)
    b.x_stride = tiling.padded_elements() + tiling.block_pixels * tiling.join_width;
  if (form.prologue)
    b.made_stride = tiling.block_pixels * std::min(tiling.row_columns, tiling.slice_tiles * slack);
  const int64_t filters = round_up(tiling.cut_filters, kMicroPanelRows);
  if (tiling.pack_dy) b.dy_stride = pixels * filters;
  for (int64_t* stride : {&b.x_stride, &b.made_stride, &b.dy_stride})
    *stride = round_up(*stride, 64 / static_cast<int64_t>(sizeof(T)));
  if (tiling.runs > 1 || tiling.shape.depthwise())
    b.partial = layout.take<Computed<T>>(tiling.runs * tiling.shape.weights());
  b.x = layout.take<T>(b.x_stride * threads);
  b.made = layout.take<T>(b.made_stride * threads);
  b.dy = layout.take<T>(b.dy_stride * threads);
  b.size = layout.size();
  return b;
}

struct Tile {
  int64_t row, column, columns;  // filter row u; first of its kw * c / groups columns
  int vectors;
};

Tile tile_of(const WeightGradTiling& tiling, int64_t index) {
  const int64_t within = index % tiling.row_tiles;
  const int64_t first = within * tiling.vectors / tiling.row_tiles;
  const int64_t last = (within + 1) * tiling.vectors / tiling.row_tiles;
  Tile tile;
  tile.row = index / tiling.row_tiles;
  tile.column = first * tiling.lanes;
  tile.columns = std::min(last * tiling.lanes, tiling.row_columns) - tile.column;
  tile.vectors = static_cast<int>(last - first);
  return tile;
}

// to[p * stride + j] = 0, j < length
template <class T>
void zero_points(T* to, int64_t stride, int64_t points, int64_t length) {
  if (length == 0) return;
  for (int64_t p = 0; p < points; ++p) std::memset(to + p * stride, 0, length * sizeof(T));
}

// Copies the columns of a tile for output pixels [first, last) of row y of an image, with zeros for
// taps outside the image.
template <class T>
void pack_row(const WeightGradTiling& tiling, const Tile& tile, int64_t group, const T* image,
              int64_t y, int64_t first, int64_t last, T* to) {
  const ConvShape& s = tiling.shape;
  const int64_t channels = s.c / s.groups, width = tile.vectors * tiling.lanes;
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
    zero_points(to, width, begin - first, length);
    if (begin < end)
      microkernels<T>().copy_points(
          image + (row * s.w + begin * s.stride_w + shift) * s.c + group * channels + k,
          s.stride_w * s.c, end - begin, length, to + (begin - first) * width, width);
    zero_points(to + (end - first) * width, width, last - end, length);
    to += length, column += length, left -= length;
  }
  zero_points(to, width, last - first, width - tile.columns);
}

template <class T>
void pack_rows(const WeightGradTiling& tiling, const Tile& tile, int64_t group, const T* x,
               int64_t first, int64_t count, T* to) {
  const ConvShape& s = tiling.shape;
  const int64_t width = tile.vectors * tiling.lanes;
  for (int64_t pixel = first; pixel < first + count;) {
    const int64_t row = pixel / tiling.out_w, column = pixel % tiling.out_w;
    const int64_t length = std::min(tiling.out_w - column, first + count - pixel);
    pack_row(tiling, tile, group, x + row / tiling.out_h * s.h * s.w * s.c, row % tiling.out_h,
             column, column + length, to);
    to += length * width, pixel += length;
  }
}

// Packs a tile from consecutive pixels, `stride` apart.
template <class T>
void pack_points(const WeightGradTiling& tiling, const Tile& tile, const T* from, int64_t stride,
                 int64_t pixels, T* to) {
  constexpr int64_t K = kDepthStep<T>;
  const int64_t width = tile.vectors * tiling.lanes * K, used = tile.columns * K;
  microkernels<T>().copy_points(from, stride, pixels, tile.columns, to, width);
  zero_points(to + used, width, ceil_div(pixels, K), width - used);
}

// Packs pairs of any pixels, tap by tap.
template <class T>
void pack_pairs(const WeightGradTiling& tiling, const Tile& tile, int64_t group, const T* x,
                int64_t first, int64_t count, T* to) {
  const ConvShape& s = tiling.shape;
  const int64_t channels = s.c / s.groups, width = tile.vectors * tiling.lanes * 2;
  const T* points[WeightGradTiling::kMaxPixels];
  for (int64_t done = 0; done < tile.columns;) {
    const int64_t tap = (tile.column + done) / channels, k = (tile.column + done) % channels;
    const int64_t length = std::min(tile.columns - done, channels - k);
    const int64_t down = tile.row * s.dilation_h - s.pad_h, right = tap * s.dilation_w - s.pad_w;
    int64_t column = first % tiling.out_w, line = first / tiling.out_w;
    for (int64_t p = 0; p < count; ++line, column = 0) {
      const int64_t image = line / tiling.out_h, y = line % tiling.out_h * s.stride_h + down;
      const T* row = x + (image * s.h + y) * s.w * s.c + group * channels + k;
      for (; column < tiling.out_w && p < count; ++column, ++p) {
        const int64_t at = column * s.stride_w + right;
        const bool inside = y >= 0 && y < s.h && at >= 0 && at < s.w;
        points[p] = inside ? row + at * s.c : nullptr;
      }
    }
    microkernels<T>().copy_scattered(points, count, length, to + 2 * done, width);
    done += length;
  }
  const int64_t used = 2 * tile.columns;
  zero_points(to + used, width, ceil_div(count, 2), width - used);
}

// Packs a tile of x.
template <class T>
void pack_tile(const WeightGradTiling& tiling, const Tile& tile, int64_t group, const T* x,
               int64_t first, int64_t count, T* to) {
  const ConvShape& s = tiling.shape;
  if constexpr (kDepthStep<T> == 1) return pack_rows(tiling, tile, group, x, first, count, to);
  if (!s.pointwise()) return pack_pairs(tiling, tile, group, x, first, count, to);
  const T* from = x + first * s.c + group * (s.c / s.groups) + tile.column;
  pack_points(tiling, tile, from, s.c, count, to);
}

// The pixels of a block: packed blocks are cut from the sequence of all pixels, direct blocks are
// rows of an image.
struct Block {
  int64_t image, row, rows, first_pixel, pixels;
};

Block block_of(const WeightGradTiling& tiling, int64_t index) {
  Block b{};
  if (tiling.direct) {
    b.image = index / tiling.blocks_per_image;
    b.row = index % tiling.blocks_per_image * tiling.block_rows;
    b.rows = std::min(tiling.block_rows, tiling.out_h - b.row);
    b.first_pixel = (b.image * tiling.out_h + b.row) * tiling.out_w;
    b.pixels = b.rows * tiling.out_w;
  } else {
    b.first_pixel = index * tiling.block_pixels;
    b.pixels =
        std::min(tiling.block_pixels, tiling.shape.n * tiling.out_h * tiling.out_w - b.first_pixel);
  }
  return b;
}

// Returns the first tap of a direct block, in place or in the padded copy that it makes in
// `buffer`; sets `row_length`.
template <class T>
const T* block_start(const WeightGradTiling& tiling, const Block& b, const T* x, T* buffer,
                     int64_t& row_length) {
  const ConvShape& s = tiling.shape;
  const T* image = x + b.image * s.h * s.w * s.c;
  row_length = s.w * s.c;
  if (!tiling.padded) return image + b.row * s.stride_h * row_length;
  row_length = tiling.padded_columns() * s.c;
  const int64_t rows = (b.rows - 1) * s.stride_h + (s.kh - 1) * s.dilation_h + 1;
  copy_padded(image, s.h, s.w, s.c, b.row * s.stride_h - s.pad_h, -s.pad_w, rows,
              tiling.padded_columns(), buffer);
  return buffer;
}

// Copies the rows of each pixel's window next to each other, as whole vectors; the next row
// overwrites the excess.
template <class T>
void join_rows(const WeightGradTiling& tiling, const Block& b, const T* start, int64_t row_length,
               T* to) {
  const ConvShape& s = tiling.shape;
  const int64_t columns = s.kw * s.c, whole = ceil_div(columns, tiling.lanes) * tiling.lanes;
  for (int64_t u = 0; u < s.kh; ++u)
    for (int64_t y = 0; y < b.rows; ++y)
      microkernels<T>().copy_points(
          start + (y * s.stride_h + u * s.dilation_h) * row_length, s.stride_w * s.c, tiling.out_w,
          whole, to + y * tiling.out_w * tiling.join_width + u * columns, tiling.join_width);
}

// The work of a task: some tiles of some filters of a group, over a run of blocks.
struct WeightGradPart {
  int64_t run, group, first_filter, filters, first_tile, last_tile;
};

// The columns of x in a part's tiles, pixel by pixel.
struct Columns {
  int64_t first, count;
};

Columns columns_of(const WeightGradTiling& tiling, const WeightGradPart& part) {
  const int64_t first = tile_of(tiling, part.first_tile).column;
  const Tile last = tile_of(tiling, part.last_tile - 1);
  return {first, last.column + last.columns - first};
}

// Computes a block's pixels with the prologue, for 1x1 filters.
template <class T>
void make_block(const WeightGradTiling& tiling, const Block& b, const Columns& columns,
                const Prologue<T>& x, T* to) {
  const ConvShape& s = tiling.shape;
  if (columns.count == s.c && s.h == 1 && s.stride_w == 1)  // consecutive pixels, in one call
    return x.read(x.context, to, b.first_pixel * s.c, b.pixels * s.c);
  for (int64_t i = b.first_pixel; i < b.first_pixel + b.pixels; ++i, to += columns.count) {
    const int64_t row = i / tiling.out_w, column = i % tiling.out_w;
    const int64_t image = row / tiling.out_h, y = row % tiling.out_h;
    const int64_t pixel = (image * s.h + y * s.stride_h) * s.w + column * s.stride_w;
    x.read(x.context, to, pixel * s.c + columns.first, columns.count);
  }
}

// The buffers of one thread.
template <class T>
struct ThreadBuffers {
  T *x, *made, *dy;
};

// Makes the product prefetch the input of the next tile, if blocks are whole rows.
template <class T>
void fetch_next(const WeightGradTiling& tiling, const Block& b, const WeightGradPart& part,
                int64_t t, const T* x, OuterProduct<T>& product) {
  const ConvShape& s = tiling.shape;
  if (tiling.pairs || tiling.block_pixels % tiling.out_w != 0) return;
  product.lines = b.pixels / tiling.out_w, product.points = tiling.out_w;
  product.b_line = tiling.out_w * product.b_point;
  const bool same = t + 1 < part.last_tile;
  const Tile next = tile_of(tiling, same ? t + 1 : part.first_tile);
  const int64_t row = (b.first_pixel + (same ? 0 : b.pixels)) / tiling.out_w;
  const int64_t image = row / tiling.out_h, y = row % tiling.out_h;
  const int64_t line = image * s.h + y * s.stride_h - s.pad_h + next.row * s.dilation_h;
  product.next_b = x + (line * s.w - s.pad_w) * s.c + part.group * (s.c / s.groups) + next.column;
  product.next_b_line = s.stride_h * s.w * s.c, product.next_b_point = s.stride_w * s.c;
}

// Adds one block of pixels to a part of `sum`.
template <class T>
void add_block(const WeightGradTiling& tiling, const Block& b, const WeightGradPart& part,
               const T* x, const Prologue<T>& prologue, const T* dy, bool accumulate,
               const ThreadBuffers<T>& buffers, Computed<T>* sum) {
  constexpr int64_t K = kDepthStep<T>;
  const ConvShape& s = tiling.shape;
  const GemmMicrokernelsOf<T>& microkernel = microkernels<T>();
  const int64_t first = part.group * (s.o / s.groups) + part.first_filter;
  const int64_t filter = tiling.rows * tiling.row_columns;
  OuterProduct<T> product{};
  product.a = dy + b.first_pixel * s.o + first;
  product.a_point = s.o, product.a_panel = kMicroPanelRows, product.a_ahead = b.pixels * s.o;
  if (tiling.pack_dy) {
    microkernel.pack_micro_panels(product.a, s.o, b.pixels, part.filters, buffers.dy);
    product.a = buffers.dy;
    product.a_point = kMicroPanelRows * K;
    product.a_panel = product.a_point * ceil_div(b.pixels, K);
    product.a_ahead = 0;
  }
  product.rows = part.filters, product.c_stride = filter, product.accumulate = accumulate;
  int64_t row_length = 0;
  const T* start = tiling.direct ? block_start(tiling, b, x, buffers.x, row_length) : buffers.x;
  T* joined = buffers.x + tiling.padded_elements();
  if (tiling.joined) join_rows(tiling, b, start, row_length, joined);
  Columns columns{};
  if (prologue.read) {
    columns = columns_of(tiling, part);
    make_block(tiling, b, columns, prologue, buffers.made);
  }
  for (int64_t t = part.first_tile; t < part.last_tile; ++t) {
    const Tile tile = tile_of(tiling, t);
    product.vectors = tile.vectors, product.columns = tile.columns;
    if (tiling.joined) {
      product.b = joined + tile.column, product.b_point = tiling.join_width;
      product.lines = 1, product.points = b.pixels;
    } else if (tiling.direct) {
      product.b = start + tile.row * s.dilation_h * row_length + tile.column;
      product.b_line = s.stride_h * row_length, product.b_point = s.stride_w * s.c;
      product.lines = b.rows, product.points = tiling.out_w;
    } else {
      if (prologue.read)
        pack_points(tiling, tile, buffers.made + tile.column - columns.first, columns.count,
                    b.pixels, buffers.x);
      else
        pack_tile(tiling, tile, part.group, x, b.first_pixel, b.pixels, buffers.x);
      product.b = buffers.x, product.b_line = 0, product.b_point = tile.vectors * tiling.lanes * K;
      product.lines = 1, product.points = ceil_div(b.pixels, K);
      if (s.h == 1 && s.kh * s.kw * s.stride_w == 1) {  // pointwise
        const int64_t next = (b.first_pixel + b.pixels) * s.c + tile.column;
        product.next_b = x + next;
        if (K > 1)
          product.next_b2 = product.next_b + s.c;  // the second pixel of a pair
        else if (prologue.second)
          product.next_b2 = prologue.second + next;
        product.next_b_point = K * s.c;
      } else if (!prologue.read) {
        fetch_next(tiling, b, part, t, x, product);
      }
    }
    product.c = sum + first * filter + tile.row * tiling.row_columns + tile.column;
    microkernel.outer(product);
  }
}

WeightGradPart part_of(const WeightGradTiling& tiling, int64_t task) {
  WeightGradPart part{};
  part.run = task % tiling.runs, task /= tiling.runs;
  part.first_tile = task % tiling.slices * tiling.slice_tiles, task /= tiling.slices;
  part.last_tile = std::min(part.first_tile + tiling.slice_tiles, tiling.tiles());
  part.first_filter = task % tiling.cuts * tiling.cut_filters, part.group = task / tiling.cuts;
  part.filters =
      std::min(tiling.cut_filters, tiling.shape.o / tiling.shape.groups - part.first_filter);
  return part;
}

template <class T>
class WeightGrad final : public Convolution<T> {
 public:
  WeightGrad(const ConvShape& shape, ConvVariant form);
  size_t scratch(int threads) const override {
    return lay_out<T>(tiling_, form_, threads, nullptr).size;
  }
  void run(ThreadPool& pool, const T* x, const T* dy, Computed<T>* dw, void* scratch,
           const ConvHooks<T>& hooks) const override;

 private:
  void run_part(const WeightGradPart& part, const WeightGradBuffers<T>& buffers, int thread,
                const T* x, const Prologue<T>& prologue, const T* dy, Computed<T>* dw) const;

  const WeightGradTiling tiling_;
  const ConvVariant form_;
  std::vector<int64_t> offsets_;  // tap offsets, depthwise only
};

template <class T>
WeightGrad<T>::WeightGrad(const ConvShape& shape, ConvVariant form)
    : tiling_(shape, dtype_of<T>), form_(form) {
  const ConvShape& s = tiling_.shape;
  if (!s.depthwise()) return;
  const int64_t row_length = (tiling_.padded ? tiling_.padded_columns() : s.w) * s.c;
  for (int64_t t = 0; t < s.kh * s.kw; ++t)
    offsets_.push_back(t / s.kw * s.dilation_h * row_length + t % s.kw * s.dilation_w * s.c);
}

template <class T>
void WeightGrad<T>::run_part(const WeightGradPart& part, const WeightGradBuffers<T>& buffers,
                             int thread, const T* x, const Prologue<T>& prologue, const T* dy,
                             Computed<T>* dw) const {
  const WeightGradTiling& tiling = tiling_;
  const ConvShape& s = tiling.shape;
  Computed<T>* sum = buffers.partial ? buffers.partial + part.run * s.weights() : dw;
  const ThreadBuffers<T> own{buffers.x + thread * buffers.x_stride,
                             buffers.made + thread * buffers.made_stride,
                             buffers.dy + thread * buffers.dy_stride};
  const int64_t begin = tiling.blocks * part.run / tiling.runs;
  const int64_t end = tiling.blocks * (part.run + 1) / tiling.runs;
  for (int64_t i = begin; i < end; ++i) {
    const Block b = block_of(tiling, i);
    if (!tiling.shape.depthwise()) {
      add_block(tiling, b, part, x, prologue, dy, i > begin, own, sum);
      continue;
    }
    if constexpr (kDepthStep<T> == 1) {
      int64_t row_length = 0;
      const T* start = block_start(tiling, b, x, own.x, row_length);
      depthwise<T>().outer({dy + b.first_pixel * s.c, start, s.stride_h * row_length,
                            s.stride_w * s.c, b.rows, tiling.out_w, offsets_.data(), s.kh * s.kw,
                            s.c, sum, i > begin});
    }
  }
}

template <class T>
void WeightGrad<T>::run(ThreadPool& pool, const T* x, const T* dy, Computed<T>* dw, void* scratch,
                        const ConvHooks<T>& hooks) const {
  const ConvShape& s = tiling_.shape;
  if (tiling_.blocks == 0) {  // no pixels: nothing to sum
    std::memset(dw, 0, s.weights() * sizeof(*dw));
    return;
  }
  const WeightGradBuffers<T> buffers = lay_out<T>(tiling_, form_, pool.size(), scratch);
  const int64_t groups = s.depthwise() ? 1 : s.groups;
  const int64_t parts = groups * tiling_.cuts * tiling_.slices;
  pool.parallel_for_thread(parts * tiling_.runs, [&](int64_t task, int thread) {
    run_part(part_of(tiling_, task), buffers, thread, x, hooks.prologue, dy, dw);
  });
  if (s.depthwise()) {
    reduce_depthwise(pool, tiling_.runs, s.kh * s.kw, s.c, buffers.partial, dw);
  } else if (buffers.partial) {
    reduce_partials(pool, tiling_.runs, s.weights(), buffers.partial, dw);
  }
}

}  // namespace

bool weight_grad_takes_prologue(const ConvRequest& request) {
  const ConvShape& s = request.shape;
  const WeightGradTiling tiling(s, request.dtype);
  if (tiling.direct || (tiling.pairs && tiling.cuts * tiling.slices > 1)) return false;
  return s.kh == 1 && s.kw == 1 && s.groups == 1 && s.pad_h == 0 && s.pad_w == 0;
}

bool weight_grad_takes_pairs(const ConvRequest& request) {
  return !WeightGradTiling(request.shape, compute_type(request.dtype)).direct;
}

std::unique_ptr<AnyConvolution> make_weight_grad(const ConvRequest& request, ConvVariant form) {
  return make_convolution<WeightGrad>(ConvTypes(), request.dtype, request.shape, form);
}

}  // namespace tessera
