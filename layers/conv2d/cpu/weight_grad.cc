#include "tessera/layers/conv2d/cpu/weight_grad.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tessera/layers/conv2d/cpu/depthwise_simd.h"
#include "tessera/layers/conv2d/cpu/geometry.h"
#include "tessera/layers/conv2d/cpu/partial_sums.h"
#include "tessera/layers/shared/gemm_simd.h"
#include "tessera/layers/shared/scratch_layout.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// to[p * stride + j] = 0, j < length
template <class T>
void zero_points(T* to, int64_t stride, int64_t points, int64_t length) {
  if (length == 0) return;
  for (int64_t p = 0; p < points; ++p) std::memset(to + p * stride, 0, length * sizeof(T));
}

template <class T>
class WeightGrad final : public Convolution<T> {
  using Tile = WeightGradTiling::Tile;
  using Block = WeightGradTiling::Block;
  using Part = WeightGradTiling::Part;
  using Columns = WeightGradTiling::Columns;

 public:
  WeightGrad(const ConvShape& shape, ConvVariant form) : tiling_(shape, dtype_of<T>), form_(form) {
    if (!s_.depthwise()) return;
    const int64_t row_length = (tiling_.padded ? tiling_.padded_columns() : s_.w) * s_.c;
    for (int64_t t = 0; t < s_.kh * s_.kw; ++t)
      offsets_.push_back(t / s_.kw * s_.dilation_h * row_length + t % s_.kw * s_.dilation_w * s_.c);
  }

  size_t scratch(int threads) const override { return lay_out(threads, nullptr).size; }

  void run(ThreadPool& pool, const T* x, const T* dy, Computed<T>* dw, void* scratch,
           const ConvHooks<T>& hooks) const override {
    if (tiling_.blocks == 0) {  // no pixels: nothing to sum
      std::memset(dw, 0, s_.weights() * sizeof(*dw));
      return;
    }
    const Buffers buffers = lay_out(pool.size(), scratch);
    const int64_t groups = s_.depthwise() ? 1 : s_.groups;
    const int64_t parts = groups * tiling_.cuts * tiling_.slices;
    pool.parallel_for_thread(parts * tiling_.runs, [&](int64_t task, int thread) {
      run_part(tiling_.part(task), buffers, thread, x, hooks.prologue, dy, dw);
    });
    if (s_.depthwise()) {
      reduce_depthwise(pool, tiling_.runs, s_.kh * s_.kw, s_.c, buffers.partial, dw);
    } else if (buffers.partial) {
      reduce_partials(pool, tiling_.runs, s_.weights(), buffers.partial, dw);
    }
  }

 private:
  struct Buffers {
    Computed<T>* partial;  // [run][weights]
    T* x;                  // per thread: a padded block, or a packed tile
    T* made;               // per thread: a prologue's output for a block, then for a row of x
    T* dy;                 // per thread: micro-panels of a block
    int64_t x_stride, made_stride, dy_stride;
    size_t size;
  };

  // The buffers of one thread.
  struct ThreadBuffers {
    T *x, *made, *line, *dy;
  };

  int64_t line_elements() const {
    if (!form_.prologue || s_.stride_w == 1) return 0;
    return round_up(s_.w * s_.c, 64 / static_cast<int64_t>(sizeof(T)));
  }

  Buffers lay_out(int threads, void* scratch) const {
    ScratchLayout layout(scratch);
    Buffers b{};
    const int64_t slack = 3 * tiling_.lanes;  // whole vectors may be read past the last pixel
    const int64_t pixels = round_up(tiling_.block_pixels, kDepthStep<T>);
    if (!tiling_.direct) b.x_stride = pixels * slack;
    if (tiling_.padded)
      b.x_stride = tiling_.padded_elements() + tiling_.block_pixels * tiling_.join_width;
    if (form_.prologue)
      b.made_stride =
          tiling_.block_pixels * std::min(tiling_.row_columns, tiling_.slice_tiles * slack) +
          line_elements();
    const int64_t filters = round_up(tiling_.cut_filters, kMicroPanelRows);
    if (tiling_.pack_dy) b.dy_stride = pixels * filters;
    for (int64_t* stride : {&b.x_stride, &b.made_stride, &b.dy_stride})
      *stride = round_up(*stride, 64 / static_cast<int64_t>(sizeof(T)));
    if (tiling_.runs > 1 || s_.depthwise())
      b.partial = layout.take<Computed<T>>(tiling_.runs * s_.weights());
    b.x = layout.take<T>(b.x_stride * threads);
    b.made = layout.take<T>(b.made_stride * threads);
    b.dy = layout.take<T>(b.dy_stride * threads);
    b.size = layout.size();
    return b;
  }

  // Copies the columns of a tile for output pixels [first, last) of row y of an image, with zeros
  // for taps outside the image.
  void pack_row(const Tile& tile, int64_t group, const T* image, int64_t y, int64_t first,
                int64_t last, T* to) const {
    const int64_t channels = s_.c / s_.groups, width = tile.vectors * tiling_.lanes;
    const int64_t row = y * s_.stride_h - s_.pad_h + tile.row * s_.dilation_h;
    int64_t column = tile.column, left = tile.columns;
    while (left > 0) {
      const int64_t tap = column / channels, k = column % channels;
      const int64_t length = std::min(left, channels - k);
      const int64_t shift = tap * s_.dilation_w - s_.pad_w;  // input column = x * stride + shift
      int64_t begin = last, end = last;
      if (row >= 0 && row < s_.h && s_.w > shift) {
        begin = shift < 0 ? ceil_div(-shift, s_.stride_w) : 0;
        end = (s_.w - 1 - shift) / s_.stride_w + 1;
        begin = std::clamp(begin, first, last), end = std::clamp(end, begin, last);
      }
      zero_points(to, width, begin - first, length);
      if (begin < end)
        microkernels<T>().copy_points(
            image + (row * s_.w + begin * s_.stride_w + shift) * s_.c + group * channels + k,
            s_.stride_w * s_.c, end - begin, length, to + (begin - first) * width, width);
      zero_points(to + (end - first) * width, width, last - end, length);
      to += length, column += length, left -= length;
    }
    zero_points(to, width, last - first, width - tile.columns);
  }

  void pack_rows(const Tile& tile, int64_t group, const T* x, int64_t first, int64_t count,
                 T* to) const {
    const int64_t width = tile.vectors * tiling_.lanes;
    for (int64_t pixel = first; pixel < first + count;) {
      const int64_t row = pixel / tiling_.out_w, column = pixel % tiling_.out_w;
      const int64_t length = std::min(tiling_.out_w - column, first + count - pixel);
      pack_row(tile, group, x + row / tiling_.out_h * s_.h * s_.w * s_.c, row % tiling_.out_h,
               column, column + length, to);
      to += length * width, pixel += length;
    }
  }

  // Packs a tile from consecutive pixels, `stride` apart.
  void pack_points(const Tile& tile, const T* from, int64_t stride, int64_t pixels, T* to) const {
    constexpr int64_t K = kDepthStep<T>;
    const int64_t width = tile.vectors * tiling_.lanes * K, used = tile.columns * K;
    microkernels<T>().copy_points(from, stride, pixels, tile.columns, to, width);
    zero_points(to + used, width, ceil_div(pixels, K), width - used);
  }

  // Packs pairs of any pixels, tap by tap.
  void pack_pairs(const Tile& tile, int64_t group, const T* x, int64_t first, int64_t count,
                  T* to) const {
    const int64_t channels = s_.c / s_.groups, width = tile.vectors * tiling_.lanes * 2;
    const T* points[WeightGradTiling::kMaxPixels];
    for (int64_t done = 0; done < tile.columns;) {
      const int64_t tap = (tile.column + done) / channels, k = (tile.column + done) % channels;
      const int64_t length = std::min(tile.columns - done, channels - k);
      const int64_t down = tile.row * s_.dilation_h - s_.pad_h,
                    right = tap * s_.dilation_w - s_.pad_w;
      int64_t column = first % tiling_.out_w, line = first / tiling_.out_w;
      for (int64_t p = 0; p < count; ++line, column = 0) {
        const int64_t image = line / tiling_.out_h, y = line % tiling_.out_h * s_.stride_h + down;
        const T* row = x + (image * s_.h + y) * s_.w * s_.c + group * channels + k;
        for (; column < tiling_.out_w && p < count; ++column, ++p) {
          const int64_t at = column * s_.stride_w + right;
          const bool inside = y >= 0 && y < s_.h && at >= 0 && at < s_.w;
          points[p] = inside ? row + at * s_.c : nullptr;
        }
      }
      microkernels<T>().copy_scattered(points, count, length, to + 2 * done, width);
      done += length;
    }
    const int64_t used = 2 * tile.columns;
    zero_points(to + used, width, ceil_div(count, 2), width - used);
  }

  // Calls run(length, channel, pixel) for the taps of a tile's columns at a position of the images:
  // `pixel` is their input pixel, or -1.
  template <class Run>
  void for_taps(const Tile& tile, const Block& b, Run run) const {
    const int64_t channels = s_.c / s_.groups;
    const int64_t row = b.row * s_.stride_h - s_.pad_h + tile.row * s_.dilation_h;
    for (int64_t done = 0, length; done < tile.columns; done += length) {
      const int64_t tap = (tile.column + done) / channels, k = (tile.column + done) % channels;
      length = std::min(tile.columns - done, channels - k);
      const int64_t column = b.column * s_.stride_w - s_.pad_w + tap * s_.dilation_w;
      const bool inside = row >= 0 && row < s_.h && column >= 0 && column < s_.w;
      run(length, k, inside ? row * s_.w + column : -1);
    }
  }

  // Packs a tile of one pixel of several images. Returns false if it has no taps in the images.
  bool pack_position(const Tile& tile, int64_t group, const T* x, const Block& b, T* to) const {
    constexpr int64_t K = kDepthStep<T>;
    bool any = false;
    for_taps(tile, b, [&](int64_t, int64_t, int64_t pixel) { any |= pixel >= 0; });
    if (!any) return false;
    const int64_t width = tile.vectors * tiling_.lanes * K, steps = ceil_div(b.pixels, K);
    for_taps(tile, b, [&](int64_t length, int64_t channel, int64_t pixel) {
      const T* from = x + (b.image * s_.h * s_.w + pixel) * s_.c + group * (s_.c / s_.groups);
      if (pixel >= 0)
        microkernels<T>().copy_points(from + channel, s_.h * s_.w * s_.c, b.pixels, length, to,
                                      width);
      else
        zero_points(to, width, steps, length * K);
      to += length * K;
    });
    zero_points(to, width, steps, width - tile.columns * K);
    return true;
  }

  // Packs a tile of x.
  void pack_tile(const Tile& tile, int64_t group, const T* x, int64_t first, int64_t count,
                 T* to) const {
    if constexpr (kDepthStep<T> == 1) return pack_rows(tile, group, x, first, count, to);
    if (!s_.pointwise()) return pack_pairs(tile, group, x, first, count, to);
    const T* from = x + first * s_.c + group * (s_.c / s_.groups) + tile.column;
    pack_points(tile, from, s_.c, count, to);
  }

  // Returns the first tap of a direct block, in place or in the padded copy that it makes in
  // `buffer`; sets `row_length`.
  const T* block_start(const Block& b, const T* x, T* buffer, int64_t& row_length) const {
    const T* image = x + b.image * s_.h * s_.w * s_.c;
    row_length = s_.w * s_.c;
    if (!tiling_.padded) return image + b.row * s_.stride_h * row_length;
    row_length = tiling_.padded_columns() * s_.c;
    const int64_t rows = (b.rows - 1) * s_.stride_h + (s_.kh - 1) * s_.dilation_h + 1;
    copy_padded<T>({s_.h, s_.w, s_.c, b.row * s_.stride_h - s_.pad_h, -s_.pad_w, rows,
                    tiling_.padded_columns()},
                   buffer, [&](T* to, int64_t first, int64_t count) {
                     std::memcpy(to, image + first, count * sizeof(T));
                   });
    return buffer;
  }

  // Copies the rows of each pixel's window next to each other, as whole vectors; the next row
  // overwrites the excess.
  void join_rows(const Block& b, const T* start, int64_t row_length, T* to) const {
    constexpr int64_t K = kDepthStep<T>;
    const int64_t columns = s_.kw * s_.c, whole = ceil_div(columns, tiling_.lanes) * tiling_.lanes;
    for (int64_t u = 0; u < s_.kh; ++u)
      for (int64_t y = 0; y < b.rows; ++y)
        microkernels<T>().copy_points(start + (y * s_.stride_h + u * s_.dilation_h) * row_length,
                                      s_.stride_w * s_.c, tiling_.out_w, whole,
                                      to + y * tiling_.out_w * tiling_.join_width + u * columns * K,
                                      tiling_.join_width * K);
  }

  // Computes a block's pixels with the prologue, for 1x1 filters. A call takes as long as many
  // elements, so strided pixels of all channels are picked from rows that are computed to `line`.
  void make_block(const Block& b, const Columns& columns, const Prologue<T>& x, T* to,
                  T* line) const {
    const bool whole = columns.count == s_.c;
    if (whole && s_.h == 1 && s_.stride_w == 1)  // consecutive pixels, in one call
      return x(to, b.first_pixel * s_.c, b.pixels * s_.c);
    for (int64_t i = b.first_pixel; i < b.first_pixel + b.pixels;) {
      const int64_t row = i / tiling_.out_w, column = i % tiling_.out_w;
      const int64_t image = row / tiling_.out_h, y = row % tiling_.out_h;
      const int64_t pixel = (image * s_.h + y * s_.stride_h) * s_.w + column * s_.stride_w;
      if (!whole) {
        x(to, pixel * s_.c + columns.first, columns.count);
        ++i, to += columns.count;
        continue;
      }
      const int64_t end = std::min(i + tiling_.out_w - column, b.first_pixel + b.pixels);
      x(line, pixel * s_.c, ((end - i - 1) * s_.stride_w + 1) * s_.c);
      for (const T* from = line; i < end; ++i, from += s_.stride_w * s_.c, to += s_.c)
        std::copy_n(from, s_.c, to);
    }
  }

  // Makes the product prefetch the input of the next tile, if blocks are whole rows.
  void fetch_next(const Block& b, const Part& part, int64_t t, const T* x,
                  OuterProduct<T>& product) const {
    if (tiling_.pairs || tiling_.by_position || tiling_.block_pixels % tiling_.out_w != 0) return;
    product.lines = b.pixels / tiling_.out_w, product.points = tiling_.out_w;
    product.b_line = tiling_.out_w * product.b_point;
    const bool same = t + 1 < part.last_tile;
    const Tile next = tiling_.tile(same ? t + 1 : part.first_tile);
    const int64_t row = (b.first_pixel + (same ? 0 : b.pixels)) / tiling_.out_w;
    const int64_t image = row / tiling_.out_h, y = row % tiling_.out_h;
    const int64_t line = image * s_.h + y * s_.stride_h - s_.pad_h + next.row * s_.dilation_h;
    product.next_b =
        x + (line * s_.w - s_.pad_w) * s_.c + part.group * (s_.c / s_.groups) + next.column;
    product.next_b_line = s_.stride_h * s_.w * s_.c, product.next_b_point = s_.stride_w * s_.c;
  }

  // Adds one block of pixels to a part of `sum`.
  void add_block(const Block& b, const Part& part, const T* x, const Prologue<T>& prologue,
                 const T* dy, bool accumulate, const ThreadBuffers& buffers,
                 Computed<T>* sum) const {
    constexpr int64_t K = kDepthStep<T>;
    const GemmMicrokernelsOf<T>& microkernel = microkernels<T>();
    const int64_t first = part.group * (s_.o / s_.groups) + part.first_filter;
    const int64_t filter = tiling_.rows * tiling_.row_columns;
    OuterProduct<T> product{};
    product.a = dy + b.first_pixel * s_.o + first;
    const int64_t step = tiling_.by_position ? tiling_.out_h * tiling_.out_w : 1;
    product.a_point = step * s_.o, product.a_panel = kMicroPanelRows;
    if (step == 1 && b.first_pixel + b.pixels < s_.n * tiling_.out_h * tiling_.out_w) {
      product.next_a = product.a + b.pixels * s_.o, product.next_a_point = K * s_.o;
      if (K > 1) product.next_a2 = product.next_a + s_.o;  // the second pixel of a pair
    }
    if (tiling_.pack_dy) {
      microkernel.pack_micro_panels(product.a, step * s_.o, b.pixels, part.filters, buffers.dy);
      product.a = buffers.dy;
      product.a_point = kMicroPanelRows * K;
      product.a_panel = product.a_point * ceil_div(b.pixels, K);
    }
    product.rows = part.filters, product.c_stride = filter, product.accumulate = accumulate;
    int64_t row_length = 0;
    const T* start = tiling_.direct ? block_start(b, x, buffers.x, row_length) : buffers.x;
    T* joined = buffers.x + tiling_.padded_elements();
    if (tiling_.joined) join_rows(b, start, row_length, joined);
    Columns columns{};
    if (prologue.read) {
      columns = tiling_.columns_of(part);
      make_block(b, columns, prologue, buffers.made, buffers.line);
    }
    for (int64_t t = part.first_tile; t < part.last_tile; ++t) {
      const Tile tile = tiling_.tile(t);
      product.vectors = tile.vectors, product.columns = tile.columns;
      product.c = sum + first * filter + tile.row * tiling_.row_columns + tile.column;
      if (t > part.first_tile) product.next_a = product.next_a2 = nullptr;
      if (tiling_.joined) {
        product.b = joined + tile.column * K, product.b_point = tiling_.join_width * K;
        product.lines = 1, product.points = ceil_div(b.pixels, K);
      } else if (tiling_.direct) {
        product.b = start + tile.row * s_.dilation_h * row_length + tile.column;
        product.b_line = s_.stride_h * row_length, product.b_point = s_.stride_w * s_.c;
        product.lines = b.rows, product.points = tiling_.out_w;
      } else {
        if (prologue.read)
          pack_points(tile, buffers.made + tile.column - columns.first, columns.count, b.pixels,
                      buffers.x);
        else if (!tiling_.by_position)
          pack_tile(tile, part.group, x, b.first_pixel, b.pixels, buffers.x);
        else if (!pack_position(tile, part.group, x, b, buffers.x)) {
          if (!accumulate) zero_points(product.c, filter, part.filters, tile.columns);
          continue;
        }
        product.b = buffers.x, product.b_line = 0,
        product.b_point = tile.vectors * tiling_.lanes * K;
        product.lines = 1, product.points = ceil_div(b.pixels, K);
        // A prologue reads x in order, and products with few filters leave no time to prefetch it.
        const bool in_order = K > 1 && prologue.read && part.filters < columns.count;
        if (s_.h == 1 && s_.kh * s_.kw * s_.stride_w == 1 && !in_order) {  // pointwise
          const int64_t next = (b.first_pixel + b.pixels) * s_.c + tile.column;
          product.next_b = x + next;
          if (K > 1)
            product.next_b2 = product.next_b + s_.c;  // the second pixel of a pair
          else if (prologue.second)
            product.next_b2 = prologue.second + next;
          product.next_b_point = K * s_.c;
        } else if (!prologue.read) {
          fetch_next(b, part, t, x, product);
        }
      }
      microkernel.outer(product);
    }
  }

  void run_part(const Part& part, const Buffers& buffers, int thread, const T* x,
                const Prologue<T>& prologue, const T* dy, Computed<T>* dw) const {
    Computed<T>* sum = buffers.partial ? buffers.partial + part.run * s_.weights() : dw;
    const ThreadBuffers own{buffers.x + thread * buffers.x_stride,
                            buffers.made + thread * buffers.made_stride,
                            buffers.made + (thread + 1) * buffers.made_stride - line_elements(),
                            buffers.dy + thread * buffers.dy_stride};
    const int64_t begin = tiling_.blocks * part.run / tiling_.runs;
    const int64_t end = tiling_.blocks * (part.run + 1) / tiling_.runs;
    for (int64_t i = begin; i < end; ++i) {
      const Block b = tiling_.block(i);
      if (!s_.depthwise()) {
        add_block(b, part, x, prologue, dy, i > begin, own, sum);
        continue;
      }
      if constexpr (kDepthStep<T> == 1) {
        int64_t row_length = 0;
        const T* start = block_start(b, x, own.x, row_length);
        depthwise<T>().outer({dy + b.first_pixel * s_.c, start, s_.stride_h * row_length,
                              s_.stride_w * s_.c, b.rows, tiling_.out_w, offsets_.data(),
                              s_.kh * s_.kw, s_.c, sum, i > begin});
      }
    }
  }

  const WeightGradTiling tiling_;
  const ConvShape& s_ = tiling_.shape;
  const ConvVariant form_;
  std::vector<int64_t> offsets_;  // tap offsets, depthwise only
};

}  // namespace

bool weight_grad_takes_prologue(const ConvRequest& request) {
  const ConvShape& s = request.shape;
  const WeightGradTiling tiling(s, request.dtype);
  if (tiling.direct || (tiling.pairs && tiling.cuts * tiling.slices > 1)) return false;
  return s.kh == 1 && s.kw == 1 && s.groups == 1 && s.pad_h == 0 && s.pad_w == 0;
}

bool weight_grad_takes_pairs(const ConvRequest& request) {
  return !WeightGradTiling(request.shape, compute_type(request.dtype)).direct ||
         WeightGradTiling(request.shape, request.dtype).joined;
}

std::unique_ptr<AnyConvolution> make_weight_grad(const ConvRequest& request, ConvVariant form) {
  return make_convolution<WeightGrad>(ConvTypes(), request.dtype, request.shape, form);
}

}  // namespace tessera
