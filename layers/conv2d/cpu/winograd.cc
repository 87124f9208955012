#include "tessera/layers/conv2d/cpu/winograd.h"

#include <algorithm>

#include "tessera/engine/pointwise_run.h"
#include "tessera/layers/conv2d/cpu/algorithms.h"
#include "tessera/layers/conv2d/cpu/winograd_steps.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// Elements of a task that widens filters.
constexpr int64_t kWidened = 1 << 14;

// A convolution that runs the steps of winograd_steps.h in some order.
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
  using Scratch = WinogradScratch<S>;
  // all_filters: the transforms of all filters are stored together, not only those of a task.
  WinogradOrder(const WinogradSteps& steps, bool all_filters, ConvVariant form)
      : s_(steps),
        filter_position_(s_.in.c * (all_filters ? s_.columns : s_.columns_per_block) +
                         kWinogradSkew),
        form_(form) {}
  virtual Scratch lay_out(int threads, void* base) const = 0;
  // Returns the filters in float32.
  const float* wide(ThreadPool& pool, const S* filters, const ConvHooks<S>& hooks,
                    const Scratch& all) const {
    if constexpr (std::is_same_v<S, float>) {
      return filters;
    } else {
      const int64_t count = 9 * s_.in.c * s_.out_c;
      pool.parallel_for(ceil_div(count, kWidened), [&](int64_t task) {
        const int64_t first = task * kWidened, n = std::min(kWidened, count - first);
        if (form_.wide_filters)
          round_to_half(dtype_of<S>, hooks.wide_filters + first, n, all.wide + first);
        else
          widen_half(dtype_of<S>, filters, first, n, all.wide + first);
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
      : Base({pass, shape, m, kTiles, kColumnsPerBlock}, true, form),
        parts_(s_.blocks.count < kTasks ? ceil_div(s_.columns, s_.columns_per_block) : 1) {}
  void run(ThreadPool& pool, const S* in, const S* filters, float* out, void* scratch,
           const ConvHooks<S>& hooks) const override;

 private:
  Scratch lay_out(int threads, void* base) const override {
    const int64_t results = parts_ > 1 ? s_.blocks.count : threads;
    return s_.template lay_out<S>(base, form_.packed ? 0 : 1, filter_position_, threads, threads,
                                  form_.prologue, form_.in_ranges ? results : 0);
  }
  WinogradFetch next_input(int64_t index, const S* in) const;
  void run_part(int64_t index, int64_t part, const S* in, const WinogradResult& result,
                const Prologue<S>& prologue, const Scratch& own) const;

  const int64_t parts_;
};

// Returns the rows that the next block reads and this block does not.
template <class S>
WinogradFetch WinogradConvolution<S>::next_input(int64_t index, const S* in) const {
  if (index + 1 >= s_.blocks.count || s_.blocks.column_blocks > 1) return {};
  const PixelRows rows = s_.blocks.new_rows(s_.blocks.block(index + 1), s_.in);
  return {in + rows.first * s_.in.w * s_.in.c, rows.count * s_.in.w * s_.in.c, 0, 1};
}

template <class S>
void WinogradConvolution<S>::run_part(int64_t index, int64_t part, const S* in,
                                      const WinogradResult& result, const Prologue<S>& prologue,
                                      const Scratch& own) const {
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
        s_.product(block, own.in, own.filters + j * s_.in.c, filter_position_, count, own.out);
    p.read = read, p.write = write;
    winograd_kernels().product(p);
    read = write = {};
    s_.write(block, j, std::min(count, s_.out_c - j), own.out, result);
  }
}

template <class S>
void WinogradConvolution<S>::run(ThreadPool& pool, const S* in, const S* filters, float* out,
                                 void* scratch, const ConvHooks<S>& hooks) const {
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
    Scratch own = s_.of_thread(all, thread);
    own.in += thread * s_.positions * s_.in_position;
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

// Maximum bytes of transformed filters, measured with 32 MiB of L3 for two cores.
constexpr int64_t kFilterBytes = 16 << 20;
// Tiles for which the filters are transformed once, for 36 positions or fewer and for 81, and
// output channels of a task. The tiles and filters of a position stay in L2.
constexpr int64_t kTilesStride1 = 128, kTilesStride2 = 64;
constexpr int64_t kFiltersTogether = 32;

// Convolution by filters, if their transforms would not stay in L3: a large block of tiles is
// transformed first, and a task transforms the filters of some output channels and computes those
// channels.
template <class S>
class WinogradByFilters final : public WinogradOrder<S> {
  using Base = WinogradOrder<S>;
  using Base::filter_position_, Base::form_, Base::s_;
  using typename Base::Scratch;

 public:
  WinogradByFilters(ConvPass pass, const ConvShape& shape, int m, ConvVariant form)
      : Base(
            {pass, shape, m, shape.stride_h == 2 ? kTilesStride2 : kTilesStride1, kFiltersTogether},
            form.packed, form) {}
  void run(ThreadPool& pool, const S* in, const S* filters, float* out, void* scratch,
           const ConvHooks<S>& hooks) const override;

 private:
  // Gives each thread its own filters; all threads share the tiles.
  Scratch lay_out(int threads, void* base) const override {
    return s_.template lay_out<S>(base, form_.packed ? 0 : threads, filter_position_, 1, threads,
                                  form_.prologue, form_.in_ranges ? 1 : 0);
  }
  void read(ThreadPool& pool, const TileBlock& block, const S* in, const Prologue<S>& prologue,
            const Scratch& all) const;
  void run_part(const TileBlock& block, int64_t part, const float* w, const WinogradResult& result,
                const Scratch& own) const;
};

// Transforms the tiles of a block; each task is a row of tiles.
template <class S>
void WinogradByFilters<S>::read(ThreadPool& pool, const TileBlock& block, const S* in,
                                const Prologue<S>& prologue, const Scratch& all) const {
  s_.clear_rest(block.tiles(), all.in);
  pool.parallel_for_thread(block.images * block.rows, [&](int64_t task, int thread) {
    TileBlock row = block;
    row.image += task / block.rows, row.images = 1;
    row.row += task % block.rows, row.rows = 1;
    s_.read(row, in, prologue, s_.of_thread(all, thread).window,
            all.in + task * block.columns * s_.depth);
  });
}

template <class S>
void WinogradByFilters<S>::run_part(const TileBlock& block, int64_t part, const float* w,
                                    const WinogradResult& result, const Scratch& own) const {
  const int64_t first = part * s_.columns_per_block,
                count = std::min(s_.columns_per_block, s_.columns - first);
  for (int64_t j = 0; j < count && !form_.packed; j += s_.panel)
    for (int64_t chunk = 0; chunk < s_.chunks(); ++chunk)
      s_.transform_filters(w, first + j, chunk, own.own_filters + j * s_.in.c, filter_position_);
  const float* filters = form_.packed ? w + first * s_.in.c : own.own_filters;
  winograd_kernels().product(s_.product(block, own.in, filters, filter_position_, count, own.out));
  s_.write(block, first, std::min(count, s_.out_c - first), own.out, result);
}

template <class S>
void WinogradByFilters<S>::run(ThreadPool& pool, const S* in, const S* filters, float* out,
                               void* scratch, const ConvHooks<S>& hooks) const {
  const Scratch all = lay_out(pool.size(), scratch);
  const float* const w = this->wide(pool, filters, hooks, all);
  for (int64_t index = 0; index < s_.blocks.count; ++index) {
    const TileBlock block = s_.blocks.block(index);
    const WinogradResult result =
        form_.in_ranges ? s_.result_of(block, all.result) : s_.whole_result(out);
    read(pool, block, in, hooks.prologue, all);
    pool.parallel_for_thread(ceil_div(s_.columns, s_.columns_per_block),
                             [&](int64_t part, int thread) {
                               Scratch own = s_.of_thread(all, thread);
                               if (!form_.packed)
                                 own.own_filters += thread * s_.filter_positions * filter_position_;
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

// Returns true if transformed filters would not stay in L3.
bool winograd_goes_by_filters(const ConvShape& s, int m) {
  const int64_t weights = winograd_transforms(s, m).filter_positions * s.c * s.o;
  return weights * static_cast<int64_t>(sizeof(float)) > kFilterBytes;
}

template <int kTile>
bool winograd_applies(const ConvRequest& r, const CpuSettings& settings) {
  return compute_type(r.dtype) == DType::f32 && settings.winograd != Winograd::off &&
         winograd_tile(r) == kTile;
}

template <int kTile>
std::unique_ptr<AnyConvolution> make_winograd(const ConvRequest& r, ConvVariant form) {
  if (r.pass == ConvPass::weight_grad) return make_winograd_weight_grad(r, kTile, form.prologue);
  if (winograd_goes_by_filters(r.shape, kTile))
    return make_convolution<WinogradByFilters>(WinogradTypes(), r.dtype, r.pass, r.shape, kTile,
                                               form);
  return make_convolution<WinogradConvolution>(WinogradTypes(), r.dtype, r.pass, r.shape, kTile,
                                               form);
}

bool winograd_takes_prologue(const ConvRequest& r) {
  return r.pass != ConvPass::weight_grad || winograd_weight_grad_takes_prologue(r.shape);
}
bool winograd_absorbs_prologue(const ConvRequest& r) { return r.pass != ConvPass::input_grad; }

template <int kTile>
bool packs_winograd_filters(const ConvRequest& r) {
  return r.dtype == DType::f32 && winograd_packs_filters(r.shape, kTile);
}

}  // namespace

const ConvAlgorithm ConvAlgorithm::winograd4 = {.name = "winograd4",
                                                .applies = winograd_applies<4>,
                                                .make = make_winograd<4>,
                                                .takes_prologue = winograd_takes_prologue,
                                                .absorbs_prologue = winograd_absorbs_prologue,
                                                .packs_filters = packs_winograd_filters<4>,
                                                .takes_half = bfloat16_inputs,
                                                .rounds_filters = true};
const ConvAlgorithm ConvAlgorithm::winograd2 = {.name = "winograd2",
                                                .applies = winograd_applies<2>,
                                                .make = make_winograd<2>,
                                                .takes_prologue = winograd_takes_prologue,
                                                .absorbs_prologue = winograd_absorbs_prologue,
                                                .packs_filters = packs_winograd_filters<2>,
                                                .takes_half = bfloat16_inputs,
                                                .rounds_filters = true};

}  // namespace tessera
