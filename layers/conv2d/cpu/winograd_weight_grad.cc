// The Winograd gradient with respect to the filters. A task transforms the tiles of some channels
// of x and of dy and sums their products for each position of a filter; its sums stay in L3. If
// there are few channels, the tiles are cut into runs, whose results are reduced in order.
#include <algorithm>
#include <cstring>

#include "tessera/layers/conv2d/cpu/partial_sums.h"
#include "tessera/layers/conv2d/cpu/winograd.h"
#include "tessera/layers/conv2d/cpu/winograd_tiling.h"
#include "tessera/layers/shared/scratch_layout.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// Maximum channels of x and of dy of a task. Sums of 64 by 64 would stay in L2, but tiles of more
// channels would be transformed for each part: slower by up to 1.15.
constexpr int64_t kGradChannels = 128;
constexpr int64_t kGradTiles = 32;  // tiles transformed at once
constexpr int64_t kGradTasks = 32;  // target number, for up to 16 threads
// Minimum tiles of a run: clearing its sums and transforming them back takes as long as some eight
// tiles.
constexpr int64_t kTilesOfRun = 128;

// Channels in parts of equal size, in whole vectors.
struct Parts {
  Parts(int64_t all, int64_t lanes) : all(all) {
    size = round_up(ceil_div(all, ceil_div(all, kGradChannels)), lanes);
    count = ceil_div(all, size);
  }
  int64_t all, size, count;
  int64_t begin(int64_t i) const { return i * size; }
  int64_t length(int64_t i) const { return std::min(size, all - begin(i)); }
};

template <class S>
class WinogradWeightGrad final : public Convolution<S> {
 public:
  WinogradWeightGrad(const ConvShape& s, int m, bool prologue)
      : s_(s),
        prologue_(prologue),
        transforms_(winograd_transforms(s, m)),
        in_(image_read(s, transforms_, ConvPass::weight_grad)),
        positions_(transforms_.positions),
        filter_positions_(transforms_.filter_positions),
        blocks_(tile_plane(s, transforms_, ConvPass::weight_grad), kGradTiles),
        channels_(s.c, winograd_kernels().lanes),
        filters_(s.o, winograd_kernels().lanes) {
    const int64_t most = std::max<int64_t>(1, blocks_.plane.tiles() / kTilesOfRun);
    runs_ = std::min(ceil_div(kGradTasks, channels_.count * filters_.count), most);
    runs_ = std::clamp<int64_t>(runs_, 1, std::max<int64_t>(1, blocks_.count));
    x_position_ = blocks_.tiles() * channels_.size + kWinogradSkew;
    dy_position_ = blocks_.tiles() * filters_.size + kWinogradSkew;
    sum_position_ = filters_.size * channels_.size + kWinogradSkew;
  }

  size_t scratch(int threads) const override { return lay_out(threads, nullptr).size; }

  void run(ThreadPool& pool, const S* x, const S* dy, float* df, void* scratch,
           const ConvHooks<S>& hooks) const override {
    const Scratch all = lay_out(pool.size(), scratch);
    const int64_t parts = channels_.count * filters_.count;
    pool.parallel_for_thread(runs_ * parts, [&](int64_t index, int thread) {
      const int64_t run = index / parts, ci = index % channels_.count;
      const int64_t oi = index % parts / channels_.count;
      Task task{x,
                dy,
                hooks.prologue,
                channels_.begin(ci),
                channels_.length(ci),
                filters_.begin(oi),
                filters_.length(oi),
                all};
      task.own.sums += thread * filter_positions_ * sum_position_;
      task.own.x += thread * positions_ * x_position_;
      task.own.dy += thread * positions_ * dy_position_;
      task.own.window += thread * blocks_.window(in_);
      run_task(task, run, runs_ > 1 ? all.partial + run * s_.weights() : df);
    });
    if (runs_ > 1) reduce_partials(pool, runs_, s_.weights(), all.partial, df);
  }

 private:
  struct Scratch {
    float* partial;        // [run][weights] if there are several runs
    float *sums, *x, *dy;  // per thread: transformed
    S* window;             // per thread: a prologue's output for the part of an image
    size_t size;
  };

  Scratch lay_out(int threads, void* base) const {
    ScratchLayout layout(base);
    Scratch all{};
    if (runs_ > 1) all.partial = layout.take<float>(runs_ * s_.weights());
    all.sums = layout.take<float>(threads * filter_positions_ * sum_position_);
    all.x = layout.take<float>(threads * positions_ * x_position_);
    all.dy = layout.take<float>(threads * positions_ * dy_position_);
    all.window = layout.take<S>(prologue_ ? threads * blocks_.window(in_) : 0);
    all.size = layout.size();
    return all;
  }

  // The inputs, the channels of x and of dy, and a thread's scratch.
  struct Task {
    const S *x, *dy;
    Prologue<S> prologue;
    int64_t c, channels, o, filters;
    Scratch own;
  };

  void read(const Task& task, const TileBlock& block) const {
    const int64_t out_h = s_.out_h(), out_w = s_.out_w(), m = blocks_.plane.m;
    float *to_x = task.own.x, *to_dy = task.own.dy;
    for (int64_t image = block.image; image < block.image + block.images; ++image) {
      const ImageView<S> x =
          blocks_.read(block, image, in_, task.x, task.prologue, task.own.window);
      const S* dy = task.dy + image * out_h * out_w * s_.o + task.o;
      for_tiles_of_image(block, 1, [&](int64_t row, int64_t column) {
        const int64_t top = row * in_.step - s_.pad_h, left = column * in_.step - s_.pad_w;
        transforms_.forward.input(WinogradRead<S>{
            x.base + top * x.row + left * s_.c + task.c, x.row, s_.c,
            inside(top, left, in_.size, s_.h, s_.w), task.channels, to_x, x_position_});
        const int64_t y = row * m, z = column * m;
        transforms_.gradient(WinogradRead<S>{dy + (y * out_w + z) * s_.o, out_w * s_.o, s_.o,
                                             inside(y, z, m, out_h, out_w), task.filters, to_dy,
                                             dy_position_});
        to_x += channels_.size, to_dy += filters_.size;
      });
    }
  }

  // Makes `sum` prefetch what the next block reads of the task's channels.
  void fetch_next(const Task& task, int64_t index, WinogradSum& sum) const {
    if (index + 1 >= blocks_.count || blocks_.column_blocks > 1) return;
    const TileBlock next = blocks_.block(index + 1);
    const PixelRows in = blocks_.new_rows(next, in_), out = blocks_.own_rows(next);
    sum.fetch[0] = {task.x + in.first * s_.w * s_.c + task.c, task.channels, s_.c, in.count * s_.w};
    sum.fetch[1] = {task.dy + out.first * s_.out_w() * s_.o + task.o, task.filters, s_.o,
                    out.count * s_.out_w()};
  }

  void run_task(const Task& task, int64_t run, float* df) const {
    const int lanes = winograd_kernels().lanes, row_tile = winograd_kernels().row_tile;
    const int64_t begin = blocks_.count * run / runs_, end = blocks_.count * (run + 1) / runs_;
    if (begin == end)  // no images
      std::memset(task.own.sums, 0, filter_positions_ * sum_position_ * sizeof(float));
    for (int64_t i = begin; i < end; ++i) {
      const TileBlock block = blocks_.block(i);
      read(task, block);
      WinogradSum sum{};
      sum.positions = positions_, sum.filter_of = transforms_.filter_of;
      sum.tiles = block.tiles();
      sum.a = task.own.dy, sum.a_position = dy_position_, sum.a_tile = filters_.size;
      sum.b = task.own.x, sum.b_position = x_position_, sum.b_tile = channels_.size;
      sum.c = task.own.sums, sum.c_position = sum_position_, sum.c_row = channels_.size;
      sum.rows = round_up(task.filters, row_tile), sum.columns = round_up(task.channels, lanes);
      sum.accumulate = i > begin;
      if (i + 1 < end) fetch_next(task, i, sum);
      winograd_kernels().sum(sum);
    }
    WinogradFilters f{};
    f.from = task.own.sums, f.from_k = channels_.size, f.from_position = sum_position_;
    f.to = df + task.o * 9 * s_.c + task.c, f.to_k = 9 * s_.c, f.to_position = s_.c;
    f.depth = task.filters, f.columns = task.channels;
    transforms_.filter_gradient(f);
  }

  const ConvShape s_;
  const bool prologue_;
  const WinogradTransforms& transforms_;
  const ImageRead in_;
  const int64_t positions_, filter_positions_;
  const TileBlocks blocks_;
  const Parts channels_, filters_;
  int64_t runs_, x_position_, dy_position_, sum_position_;
};

}  // namespace

// Returns false if channels are cut, as each part would run the prologue again.
bool winograd_weight_grad_takes_prologue(const ConvShape& shape) {
  return shape.c <= kGradChannels;
}

std::unique_ptr<AnyConvolution> make_winograd_weight_grad(const ConvRequest& request, int m,
                                                          bool prologue) {
  return make_convolution<WinogradWeightGrad>(SingleTypes(), request.dtype, request.shape, m,
                                              prologue);
}

}  // namespace tessera
