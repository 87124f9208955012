#include "tessera/layers/conv2d/cpu/winograd.h"

#include <algorithm>
#include <limits>

#include "tessera/engine/half_numbers.h"
#include "tessera/engine/lines.h"
#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/conv2d/cpu/winograd_tiling.h"
#include "tessera/layers/shared/gemm_simd.h"
#include "tessera/layers/shared/scratch_layout.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// Pixel (y, x) of image i of a result is at base + i * image + y * row + x * channels.
struct WinogradResult {
  float* base;
  int64_t image, row;
};

// Transformed filters that stay in L2 from one block of tiles to the next.
constexpr int64_t kFiltersInCache = (1 << 20) / sizeof(float);

// The steps of a Winograd convolution or its input gradient that do not depend on their order:
// transforms of filters, of blocks of tiles, and back.
struct WinogradSteps {
  // `wanted`: target number of tiles in a block. `max_columns`: output channels that are computed
  // before they are transformed back, in whole panels. `max_depth`: input channels that are
  // multiplied at once. `rounds`: the filters are rounded to bfloat16 before their transform.
  WinogradSteps(ConvPass pass, const ConvShape& s, int m, int64_t wanted, int64_t max_columns,
                int64_t max_depth, bool rounds)
      : backward(pass == ConvPass::input_grad),
        rounds(rounds),
        transforms(winograd_transforms(s, m)),
        transform(backward ? transforms.input_grad : transforms.forward),
        positions(transforms.positions),
        filter_positions(transforms.filter_positions),
        in(image_read(s, transforms, pass)),
        out_c(backward ? s.c : s.o),
        blocks(tile_plane(s, transforms, pass), wanted),
        panel(2 * winograd_kernels().lanes),
        depth(std::min(max_depth, round_up(in.c, winograd_kernels().lanes))),
        columns(round_up(out_c, winograd_kernels().lanes)),
        tiles(round_up(blocks.tiles(), winograd_kernels().row_tile)),
        columns_per_block(std::min(columns, max_columns)),
        in_position(tiles * depth + kWinogradSkew),
        in_group(positions * in_position),
        out_position(tiles * columns_per_block + kWinogradSkew) {}

  // Input channels of a chunk. Filters are transformed for one chunk and one panel of output
  // channels at once.
  static constexpr int64_t kDepth = 16;
  // Filters with adjacent output channels, before their transform: 2 vectors of 16 wide.
  static constexpr int64_t kMaxTransposed = 9 * kDepth * 2 * 16;
  int64_t chunks() const { return ceil_div(in.c, kDepth); }
  // Returns the width of the panel from output channel j on.
  int64_t width(int64_t j) const { return std::min(panel, columns - j); }
  int64_t groups() const { return ceil_div(in.c, depth); }

  // Transforms the filters of the panel from output channel j on for a chunk, which begins at `to`:
  // [position][input channel][panel's width].
  void transform_filters(const float* w, int64_t j, int64_t chunk, float* to,
                         int64_t to_position) const {
    alignas(64) float transposed[kMaxTransposed];
    const int64_t k = chunk * kDepth, some = std::min(kDepth, in.c - k);
    const int64_t width = this->width(j), count = std::min(width, out_c - j);
    WinogradFilters f{};
    f.to = to;
    f.to_k = width, f.to_position = to_position;
    f.depth = some, f.rounds = rounds;
    if (backward) {
      f.from = w + k * 9 * out_c + j;
      f.from_k = 9 * out_c, f.from_position = out_c;
      f.columns = count, f.flip = true;
    } else {
      for (int tap = 0; tap < 9; ++tap)
        microkernels<float>().pack_transposed(w + (j * 9 + tap) * in.c + k, 9 * in.c, some, count,
                                              width, transposed + tap * kDepth * width);
      f.from = transposed;
      f.from_k = width, f.from_position = kDepth * width;
      f.columns = width;
    }
    transforms.filters(f);
  }

  // Returns the filters of `count` output channels from j on for a group of input channels.
  WinogradFetch filters_of(const float* w, int64_t j, int64_t count, int64_t group) const {
    const int64_t k = group * depth, some = std::min(depth, in.c - k);
    count = std::min(count, out_c - j);
    if (backward) return {w + k * 9 * out_c + j, count, out_c, 9 * some};
    return {w + j * 9 * in.c + k, some, in.c, 9 * count};
  }

  // Transforms all filters; each task is a panel of output channels for some input channels.
  void transform_all(ThreadPool& pool, const float* w, float* to, int64_t to_position) const {
    pool.parallel_for(chunks() * ceil_div(columns, panel), [&](int64_t task) {
      const int64_t j = task / chunks() * panel, chunk = task % chunks();
      transform_filters(w, j, chunk, to + j * in.c + chunk * kDepth * width(j), to_position);
    });
  }

  // Transforms the tiles of a block to [group of channels][position][tile][depth]. `window` holds
  // blocks.window(in) elements if there is a prologue.
  template <class S>
  void read(const TileBlock& block, const S* image, const Prologue<S>& prologue, S* window,
            float* to) const {
    for (int64_t i = block.image; i < block.image + block.images; ++i) {
      const ImageView<S> from = blocks.read(block, i, in, image, prologue, window);
      for_tiles_of_image(block, in.step, [&](int64_t y, int64_t x) {
        y -= in.pad_h, x -= in.pad_w;
        float* group = to;
        for (int64_t c = 0; c < in.c; c += depth, group += in_group)
          transform.input(WinogradRead<S>{from.base + y * from.row + x * in.c + c, from.row, in.c,
                                          inside(y, x, in.size, in.h, in.w),
                                          std::min(depth, in.c - c), group, in_position});
        to += depth;
      });
    }
  }

  // Zeroes the rows past the last tile. The product reads whole row tiles; its results for these
  // rows are unused.
  void clear_rest(int64_t count, float* to) const {
    const int64_t end = round_up(count, winograd_kernels().row_tile);
    if (end > count)
      for (int64_t p = 0; p < positions * groups(); ++p)
        std::fill(to + p * in_position + count * depth, to + p * in_position + end * depth, 0.0f);
  }

  // Returns the result that begins at `out`, or that has only one block, at `own`.
  WinogradResult whole_result(float* out) const {
    const int64_t row = blocks.plane.w * out_c;
    return {out, blocks.plane.h * row, row};
  }
  WinogradResult result_of(const TileBlock& b, float* own) const {
    const int64_t m = blocks.plane.m;
    const int64_t w = b.columns == blocks.plane.columns ? blocks.plane.w : b.columns * m;
    const int64_t row = w * out_c, image = blocks.plane.h * row;
    return {own - b.image * image - b.row * m * row - b.column * m * out_c, image, row};
  }

  // Returns the elements of the result of a block.
  int64_t result_elements() const {
    const int64_t m = blocks.plane.m;
    return blocks.images * std::min(blocks.plane.h, blocks.rows * m) *
           std::min(blocks.plane.w, blocks.columns * m) * out_c;
  }

  // Transforms output channels [first, first + count) of a block back.
  void write(const TileBlock& block, int64_t first, int64_t count, const float* from,
             const WinogradResult& to) const {
    const int64_t h = blocks.plane.h, w = blocks.plane.w, m = blocks.plane.m;
    for (int64_t i = block.image; i < block.image + block.images; ++i)
      for_tiles_of_image(block, m, [&](int64_t y, int64_t x) {
        transform.output({to.base + i * to.image + y * to.row + x * out_c + first, to.row, out_c,
                          inside(y, x, m, h, w), count, from, out_position});
        from += columns_per_block;
      });
  }

  // Applies the epilogue to a block.
  void finish(const TileBlock& block, const WinogradResult& result,
              const Epilogue<float>& epilogue) const {
    const int64_t h = blocks.plane.h, w = blocks.plane.w;
    blocks.for_ranges(block, [&](int64_t pixel, int64_t pixels) {
      float* const rows = result.base + pixel / (h * w) * result.image +
                          pixel / w % h * result.row + pixel % w * out_c;
      epilogue(rows, pixel * out_c, pixels * out_c);
    });
  }

  // Returns the product of a group of channels of a block with the filters of `count` output
  // channels, which begin at u.
  WinogradProduct product(const TileBlock& block, const float* a, int64_t group, const float* u,
                          int64_t u_position, int64_t count, float* out) const {
    WinogradProduct p{};
    p.positions = positions, p.filter_of = transforms.filter_of;
    p.a = a + group * in_group, p.a_position = in_position, p.a_row = depth;
    p.depth = std::min(depth, in.c - group * depth);
    p.tiles = round_up(block.tiles(), winograd_kernels().row_tile);
    p.b = u, p.b_position = u_position, p.b_panel = p.depth * panel;
    p.c = out, p.c_position = out_position, p.c_row = columns_per_block, p.columns = count;
    p.accumulate = group > 0;
    p.fetch_filters = groups() == 1 && filter_positions * in.c * columns > kFiltersInCache;
    return p;
  }

  const bool backward, rounds;
  const WinogradTransforms& transforms;
  const WinogradPass& transform;  // transform of the pass
  const int64_t positions, filter_positions;
  const ImageRead in;
  const int64_t out_c;
  const TileBlocks blocks;
  const int64_t panel;
  const int64_t depth, columns;  // input channels of a group, output channels, in whole vectors
  const int64_t tiles;           // tiles of a block, in whole row tiles
  const int64_t columns_per_block;
  const int64_t in_position, in_group, out_position;  // elements from one to the next
};

constexpr int64_t kAllChannels = std::numeric_limits<int64_t>::max();

// A convolution that runs the steps in some order. S: the type of the images.
template <class S>
class WinogradOrder : public Convolution<S> {
 public:
  size_t scratch(int threads) const final { return lay_out(threads, nullptr).size; }
  int64_t packed_elements() const final {
    return std::is_same_v<S, float> ? s_.filter_positions * filter_position_ : 0;
  }
  void pack(ThreadPool& pool, const S* w, S* packed) const final {
    if constexpr (std::is_same_v<S, float>) s_.transform_all(pool, w, packed, filter_position_);
  }

 protected:
  // Pointers to a thread's memory are those of the first thread.
  struct Scratch {
    // Transformed filters: [position][panel][input channel][panel's width]; own_filters: those in
    // this scratch.
    float* own_filters;
    const float* filters;
    float *in, *out;  // transformed tiles; `out` is per thread
    float* wide;      // filters in float32 if they are not given so
    S* window;        // per thread: a prologue's output for the part of an image
    float* result;    // blocks of the result, if it is passed on in ranges
    size_t size;
  };

  // all_filters: the transforms of all filters are stored together, not only those of a task.
  WinogradOrder(const WinogradSteps& steps, bool all_filters, ConvVariant form)
      : s_(steps),
        filter_position_((all_filters ? s_.in.c * s_.columns : s_.depth * s_.columns_per_block) +
                         kWinogradSkew),
        form_(form) {}
  virtual Scratch lay_out(int threads, void* base) const = 0;
  // Lays out scratch at `base` with `filters` sets of filters, `tile_blocks` blocks of tiles and
  // `results` blocks of the result.
  Scratch take(void* base, int64_t filters, int64_t tile_blocks, int threads,
               int64_t results) const {
    ScratchLayout layout(base);
    Scratch all{};
    all.own_filters = layout.take<float>(filters * s_.filter_positions * filter_position_);
    all.filters = all.own_filters;
    all.in = layout.take<float>(tile_blocks * s_.groups() * s_.in_group);
    all.out = layout.take<float>(threads * s_.positions * s_.out_position);
    if (widens()) all.wide = layout.take<float>(9 * s_.in.c * s_.out_c);
    all.window = layout.take<S>(form_.prologue ? threads * s_.blocks.window(s_.in) : 0);
    all.result = layout.take<float>(results * s_.result_elements());
    all.size = layout.size();
    return all;
  }
  // Returns a thread's part, except for filters, `in` and `result`.
  Scratch of_thread(const Scratch& all, int thread) const {
    Scratch own = all;
    own.out += thread * s_.positions * s_.out_position;
    own.window += thread * s_.blocks.window(s_.in);
    return own;
  }
  bool widens() const { return !std::is_same_v<S, float> && !form_.wide_filters; }
  // Returns the filters in float32.
  const float* wide(ThreadPool& pool, const S* filters, const ConvHooks<S>& hooks,
                    const Scratch& all) const {
    if constexpr (std::is_same_v<S, float>) {
      return filters;
    } else {
      if (form_.wide_filters) return hooks.wide_filters;
      for_chunks(pool, 9 * s_.in.c * s_.out_c, [&](int64_t first, int64_t count) {
        widen_half(dtype_of<S>, filters, first, count, all.wide + first);
      });
      return all.wide;
    }
  }

  const WinogradSteps s_;
  const int64_t filter_position_;
  const ConvVariant form_;
};

// Tiles of a task: the transforms of 36 positions stay in L2 next to a part of the filters'. For 81
// positions, blocks of 8, 16 and 32 tiles take the same time.
constexpr int64_t kTiles = 16;
// Output channels that are computed before they are transformed back.
constexpr int64_t kColumnsPerBlock = 128;
// Target number of tasks. If there are fewer blocks of tiles, the output channels are cut too, and
// each part transforms the tiles again.
constexpr int64_t kTasks = 16;

// Convolution by tiles: all filters are transformed first, and a task takes a block of tiles from
// the image to the result, with its transforms in L2.
template <class S>
class WinogradConvolution final : public WinogradOrder<S> {
  using Base = WinogradOrder<S>;
  using Base::filter_position_, Base::form_, Base::s_;
  using typename Base::Scratch;

 public:
  WinogradConvolution(ConvPass pass, const ConvShape& shape, int m, ConvVariant form)
      : Base({pass, shape, m, kTiles, kColumnsPerBlock, kAllChannels, form.wide_filters}, true,
             form),
        parts_(s_.blocks.count < kTasks ? ceil_div(s_.columns, s_.columns_per_block) : 1) {}

  void run(ThreadPool& pool, const S* in, const S* filters, float* out, void* scratch,
           const ConvHooks<S>& hooks) const override {
    const Epilogue<float>& epilogue = hooks.epilogue;
    Scratch all = lay_out(pool.size(), scratch);
    const float* const w = this->wide(pool, filters, hooks, all);
    if (form_.packed)
      all.filters = w;
    else
      s_.transform_all(pool, w, all.own_filters, filter_position_);
    // Blocks in parts, of which several threads compute one, have a result each.
    const auto result = [&](int64_t index, int thread) {
      return form_.in_ranges
                 ? s_.result_of(s_.blocks.block(index),
                                all.result + (parts_ > 1 ? index : thread) * s_.result_elements())
                 : s_.whole_result(out);
    };
    pool.parallel_for_thread(parts_ * s_.blocks.count, [&](int64_t task, int thread) {
      Scratch own = this->of_thread(all, thread);
      own.in += thread * s_.in_group;
      const int64_t index = task % s_.blocks.count;
      const WinogradResult to = result(index, thread);
      run_part(index, task / s_.blocks.count, in, to, hooks.prologue, own);
      if (epilogue.apply && parts_ == 1) s_.finish(s_.blocks.block(index), to, epilogue);
    });
    if (epilogue.apply && parts_ > 1)  // whole pixels
      pool.parallel_for(s_.blocks.count, [&](int64_t index) {
        s_.finish(s_.blocks.block(index), result(index, 0), epilogue);
      });
  }

 private:
  Scratch lay_out(int threads, void* base) const override {
    const int64_t results = parts_ > 1 ? s_.blocks.count : threads;
    return this->take(base, form_.packed ? 0 : 1, threads, threads, form_.in_ranges ? results : 0);
  }

  // Returns the rows that the next block reads and this block does not.
  WinogradFetch next_input(int64_t index, const S* in) const {
    if (index + 1 >= s_.blocks.count || s_.blocks.column_blocks > 1) return {};
    const PixelRows rows = s_.blocks.new_rows(s_.blocks.block(index + 1), s_.in);
    return {in + rows.first * s_.in.w * s_.in.c, rows.count * s_.in.w * s_.in.c, 0, 1};
  }

  void run_part(int64_t index, int64_t part, const S* in, const WinogradResult& result,
                const Prologue<S>& prologue, const Scratch& own) const {
    const TileBlock block = s_.blocks.block(index);
    s_.read(block, in, prologue, own.window, own.in);
    s_.clear_rest(block.tiles(), own.in);
    WinogradFetch read = next_input(index, in), write = {};
    if (s_.blocks.column_blocks == 1) {
      const PixelRows rows = s_.blocks.own_rows(block);
      write = {result.base + rows.first * result.row, rows.count * result.row, 0, 1};
    }
    const int64_t end =
        parts_ > 1 ? std::min(s_.columns, (part + 1) * s_.columns_per_block) : s_.columns;
    for (int64_t j = part * s_.columns_per_block; j < end; j += s_.columns_per_block) {
      const int64_t count = std::min(s_.columns_per_block, s_.columns - j);
      WinogradProduct p =
          s_.product(block, own.in, 0, own.filters + j * s_.in.c, filter_position_, count, own.out);
      p.read = read, p.write = write;
      winograd_kernels().product(p);
      read = write = {};
      s_.write(block, j, std::min(count, s_.out_c - j), own.out, result);
    }
  }

  const int64_t parts_;
};

// Maximum bytes of transformed filters, measured with 32 MiB of L3 for two cores.
constexpr int64_t kTransformedBytes = 16 << 20;
// Tiles for which the filters are transformed once, for 36 positions or fewer and for 81, and
// output channels of a task. The tiles and filters of a position stay in L2.
constexpr int64_t kTilesStride1 = 128, kTilesStride2 = 64;
constexpr int64_t kFiltersTogether = 32;
// Input channels of which the transformed filters stay in L2, next to the sums.
constexpr int64_t kDepthTogether = 128;

// Convolution by filters, if their transforms would not stay in L3: a large block of tiles is
// transformed first, and a task computes some output channels, transforming filters of a group of
// input channels at a time.
template <class S>
class WinogradByFilters final : public WinogradOrder<S> {
  using Base = WinogradOrder<S>;
  using Base::filter_position_, Base::form_, Base::s_;
  using typename Base::Scratch;

 public:
  WinogradByFilters(ConvPass pass, const ConvShape& shape, int m, ConvVariant form)
      : Base({pass, shape, m, shape.stride_h == 2 ? kTilesStride2 : kTilesStride1, kFiltersTogether,
              form.packed ? kAllChannels : kDepthTogether, form.wide_filters},
             form.packed, form) {}

  void run(ThreadPool& pool, const S* in, const S* filters, float* out, void* scratch,
           const ConvHooks<S>& hooks) const override {
    const Scratch all = lay_out(pool.size(), scratch);
    const float* const w = this->wide(pool, filters, hooks, all);
    for (int64_t index = 0; index < s_.blocks.count; ++index) {
      const TileBlock block = s_.blocks.block(index);
      const WinogradResult result =
          form_.in_ranges ? s_.result_of(block, all.result) : s_.whole_result(out);
      read(pool, block, in, hooks.prologue, all);
      pool.parallel_for_thread(
          ceil_div(s_.columns, s_.columns_per_block), [&](int64_t part, int thread) {
            Scratch own = this->of_thread(all, thread);
            if (!form_.packed) own.own_filters += thread * s_.filter_positions * filter_position_;
            run_part(block, part, w, result, own);
          });
      if (!hooks.epilogue.apply) continue;
      pool.parallel_for(block.images, [&](int64_t i) {  // whole pixels
        TileBlock image = block;
        image.image += i, image.images = 1;
        s_.finish(image, result, hooks.epilogue);
      });
    }
  }

 private:
  // Gives each thread its own filters; all threads share the tiles.
  Scratch lay_out(int threads, void* base) const override {
    return this->take(base, form_.packed ? 0 : threads, 1, threads, form_.in_ranges ? 1 : 0);
  }

  // Transforms the tiles of a block; each task is a row of tiles.
  void read(ThreadPool& pool, const TileBlock& block, const S* in, const Prologue<S>& prologue,
            const Scratch& all) const {
    s_.clear_rest(block.tiles(), all.in);
    pool.parallel_for_thread(block.images * block.rows, [&](int64_t task, int thread) {
      TileBlock row = block;
      row.image += task / block.rows, row.images = 1;
      row.row += task % block.rows, row.rows = 1;
      s_.read(row, in, prologue, this->of_thread(all, thread).window,
              all.in + task * block.columns * s_.depth);
    });
  }

  void run_part(const TileBlock& block, int64_t part, const float* w, const WinogradResult& result,
                const Scratch& own) const {
    const int64_t first = part * s_.columns_per_block,
                  count = std::min(s_.columns_per_block, s_.columns - first);
    const float* const filters = form_.packed ? w + first * s_.in.c : own.own_filters;
    for (int64_t group = 0; group < s_.groups(); ++group) {
      WinogradProduct product =
          s_.product(block, own.in, group, filters, filter_position_, count, own.out);
      for (int64_t j = 0; j < count && !form_.packed; j += s_.panel)
        for (int64_t k = 0; k < product.depth; k += s_.kDepth)
          s_.transform_filters(w, first + j, (group * s_.depth + k) / s_.kDepth,
                               own.own_filters + j * product.depth + k * s_.width(first + j),
                               filter_position_);
      if (!form_.packed && group + 1 < s_.groups())
        product.read = s_.filters_of(w, first, count, group + 1);
      winograd_kernels().product(product);
    }
    s_.write(block, first, std::min(count, s_.out_c - first), own.out, result);
  }
};

// Returns true if transformed filters would not stay in L3.
bool winograd_goes_by_filters(const ConvShape& s, int m) {
  const int64_t weights = winograd_transforms(s, m).filter_positions * s.c * s.o;
  return weights * static_cast<int64_t>(sizeof(float)) > kTransformedBytes;
}

template <int kTile>
std::unique_ptr<AnyConvolution> make_winograd(const ConvRequest& r, ConvVariant form) {
  if (r.pass == ConvPass::weight_grad) return make_winograd_weight_grad(r, kTile, form.prologue);
  if (winograd_goes_by_filters(r.shape, kTile))
    return make_convolution<WinogradByFilters>(SingleTypes(), r.dtype, r.pass, r.shape, kTile,
                                               form);
  return make_convolution<WinogradConvolution>(SingleTypes(), r.dtype, r.pass, r.shape, kTile,
                                               form);
}

template <int kTile>
constexpr ConvAlgorithm winograd_of(std::string_view name) {
  return {.name = name,
          .applies =
              [](const ConvRequest& r, const CpuSettings& settings) {
                return compute_type(r.dtype) == DType::f32 && settings.winograd != Winograd::off &&
                       winograd_tile(r) == kTile;
              },
          .make = make_winograd<kTile>,
          .takes_prologue =
              [](const ConvRequest& r) {
                return r.pass != ConvPass::weight_grad ||
                       winograd_weight_grad_takes_prologue(r.shape);
              },
          .absorbs_prologue = [](const ConvRequest& r) { return r.pass != ConvPass::input_grad; },
          .packs_filters =
              [](const ConvRequest& r) {
                return r.dtype == DType::f32 && winograd_packs_filters(r.shape, kTile);
              },
          .takes_half = ConvAlgorithm::bfloat16_inputs,
          .rounds_filters = true};
}

}  // namespace

const ConvAlgorithm ConvAlgorithm::winograd4 = winograd_of<4>("winograd4");
const ConvAlgorithm ConvAlgorithm::winograd2 = winograd_of<2>("winograd2");

}  // namespace tessera
