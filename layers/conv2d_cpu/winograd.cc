#include "tessera/layers/conv2d_cpu/winograd.h"

#include <algorithm>

#include "tessera/layers/conv2d_cpu/microkernels.h"
#include "tessera/layers/conv2d_cpu/winograd_tiling.h"
#include "tessera/layers/shared/integers.h"
#include "tessera/layers/shared/scratch_layout.h"

namespace tessera {
namespace {

// Tiles of a task: their transforms are to stay in L2 beside a part of the filters'.
constexpr int64_t kTiles = 16;
// Filters whose transforms do not stay in L3 are read from memory by each task: fewer, longer
// tasks.
constexpr int64_t kFilterBytes = 16 << 20;
constexpr int64_t kManyTiles = 64;
// Output channels that are computed before they are transformed back.
constexpr int64_t kTogether = 128;
// Tasks wanted. With fewer blocks of tiles the output channels are cut too, and each part
// transforms the tiles anew.
constexpr int64_t kTasks = 16;
// Filters are transformed for so many input channels at once.
constexpr int64_t kDepth = 16;

int64_t tiles_wanted(const ConvShape& s, int m) {
  const int64_t bytes = (m + 2) * (m + 2) * s.c * s.o * static_cast<int64_t>(sizeof(float));
  return bytes > kFilterBytes ? kManyTiles : kTiles;
}

struct Scratch {
  float* filters;   // transformed: [position][panel][input channel][panel's width]
  float *in, *out;  // of each thread: transformed tiles
  float* turned;    // of each thread: filters with output channels side by side
  float* window;    // of each thread: what a prologue makes of the part of an image
  size_t size;
};

class WinogradConvolution final : public Convolution<float> {
 public:
  WinogradConvolution(ConvPass pass, const ConvShape& shape, int m);
  void run(ThreadPool& pool, const float* in, const float* filters, float* out, void* scratch,
           const ConvHooks<float>& hooks) const override;
  Scratch lay_out(int threads, bool prologue, void* base) const;

 private:
  // The input, and what a thread works in.
  struct Own {
    const float* image;
    Prologue<float> prologue;
    float *in, *out, *window;
  };

  void transform_filters(ThreadPool& pool, const float* w, const Scratch& scratch) const;
  void read(const TileBlock& block, const Own& own) const;
  void write(const TileBlock& block, int64_t first, int64_t count, const float* from,
             float* out) const;
  WinogradFetch next_input(int64_t index, const float* in) const;
  void run_part(int64_t index, int64_t part, const float* u, float* out, const Own& own) const;
  void finish(int64_t index, float* out, const Epilogue<float>& epilogue) const;

  const bool backward_;
  const WinogradTransforms& transforms_;
  const int64_t m_, positions_;
  const ImageRead in_;
  const int64_t out_c_;
  const TileBlocks blocks_;
  const int64_t panel_, depth_, columns_;  // columns: output channels in whole vectors; so depth
  const int64_t tiles_;                    // of a block, in whole row tiles
  int64_t together_, parts_;
  int64_t filter_position_, in_position_, out_position_;
};

WinogradConvolution::WinogradConvolution(ConvPass pass, const ConvShape& s, int m)
    : backward_(pass == ConvPass::input_grad),
      transforms_(winograd_transforms(m)),
      m_(m),
      positions_((m + 2) * (m + 2)),
      in_(backward_ ? ImageRead{s.out_h(), s.out_w(), s.o, 2 - s.pad_h, 2 - s.pad_w}
                    : ImageRead{s.h, s.w, s.c, s.pad_h, s.pad_w}),
      out_c_(backward_ ? s.c : s.o),
      blocks_({s.n, backward_ ? s.h : s.out_h(), backward_ ? s.w : s.out_w(), m},
              tiles_wanted(s, m)),
      panel_(2 * winograd_kernels().lanes),
      depth_(round_up(in_.c, winograd_kernels().lanes)),
      columns_(round_up(out_c_, winograd_kernels().lanes)),
      tiles_(round_up(blocks_.tiles(), winograd_kernels().row_tile)) {
  together_ = std::min(columns_, kTogether);
  parts_ = blocks_.count < kTasks ? ceil_div(columns_, together_) : 1;
  filter_position_ = in_.c * columns_ + kWinogradSkew;
  in_position_ = tiles_ * depth_ + kWinogradSkew;
  out_position_ = tiles_ * together_ + kWinogradSkew;
}

Scratch WinogradConvolution::lay_out(int threads, bool prologue, void* base) const {
  ScratchLayout layout(base);
  Scratch all{};
  all.filters = layout.take<float>(positions_ * filter_position_);
  all.in = layout.take<float>(threads * positions_ * in_position_);
  all.out = layout.take<float>(threads * positions_ * out_position_);
  if (!backward_) all.turned = layout.take<float>(threads * 9 * kDepth * panel_);
  all.window = layout.take<float>(prologue ? threads * blocks_.window(in_) : 0);
  all.size = layout.size();
  return all;
}

// A panel of output channels for some input channels is a task.
void WinogradConvolution::transform_filters(ThreadPool& pool, const float* w,
                                            const Scratch& scratch) const {
  const int64_t chunks = ceil_div(in_.c, kDepth), panels = ceil_div(columns_, panel_);
  pool.parallel_for_thread(chunks * panels, [&](int64_t task, int thread) {
    const int64_t k = task % chunks * kDepth, j = task / chunks * panel_;
    const int64_t depth = std::min(kDepth, in_.c - k);
    const int64_t width = std::min(panel_, columns_ - j), count = std::min(width, out_c_ - j);
    WinogradFilters f{};
    f.to = scratch.filters + j * in_.c + k * width;
    f.to_k = width, f.to_position = filter_position_;
    f.depth = depth;
    if (backward_) {
      f.from = w + k * 9 * out_c_ + j;
      f.from_k = 9 * out_c_, f.from_position = out_c_;
      f.columns = count, f.flip = true;
    } else {
      float* turned = scratch.turned + thread * 9 * kDepth * panel_;
      for (int tap = 0; tap < 9; ++tap)
        microkernels<float>().pack_transposed(w + (j * 9 + tap) * in_.c + k, 9 * in_.c, depth,
                                              count, width, turned + tap * kDepth * width);
      f.from = turned;
      f.from_k = width, f.from_position = kDepth * width;
      f.columns = width;
    }
    transforms_.filters(f);
  });
}

void WinogradConvolution::read(const TileBlock& block, const Own& own) const {
  float* to = own.in;
  int64_t tile = 0;
  for (int64_t image = block.image; image < block.image + block.images; ++image) {
    const ImagePlace from = blocks_.read(block, image, in_, own.image, own.prologue, own.window);
    for_tiles_of_image(block, m_, [&](int64_t y, int64_t x) {
      y -= in_.pad_h, x -= in_.pad_w;
      transforms_.input({from.base + y * from.row + x * in_.c, from.row, in_.c,
                         inside(y, x, m_ + 2, in_.h, in_.w), in_.c, to + tile++ * depth_,
                         in_position_});
    });
  }
  // The product takes whole row tiles; what is computed of these is not used.
  for (; tile % winograd_kernels().row_tile != 0; ++tile)
    for (int64_t p = 0; p < positions_; ++p)
      std::fill_n(to + p * in_position_ + tile * depth_, depth_, 0.0f);
}

// Output channels [first, first + count).
void WinogradConvolution::write(const TileBlock& block, int64_t first, int64_t count,
                                const float* from, float* out) const {
  const int64_t h = blocks_.plane.h, w = blocks_.plane.w;
  for (int64_t image = block.image; image < block.image + block.images; ++image)
    for_tiles_of_image(block, m_, [&](int64_t y, int64_t x) {
      transforms_.output({out + ((image * h + y) * w + x) * out_c_ + first, w * out_c_, out_c_,
                          inside(y, x, m_, h, w), count, from, out_position_});
      from += together_;
    });
}

// The rows that the next block reads and this one has not.
WinogradFetch WinogradConvolution::next_input(int64_t index, const float* in) const {
  if (index + 1 >= blocks_.count || blocks_.column_blocks > 1) return {};
  const TileBlock next = blocks_.block(index + 1);
  const PixelRows rows = blocks_.new_rows(next, in_.pad_h, in_.h);
  return {in + rows.first * in_.w * in_.c, rows.count * in_.w * in_.c, 0, 1};
}

void WinogradConvolution::run_part(int64_t index, int64_t part, const float* u, float* out,
                                   const Own& own) const {
  const TileBlock block = blocks_.block(index);
  read(block, own);
  WinogradProduct p{};
  p.positions = positions_;
  p.a = own.in, p.a_position = in_position_, p.a_row = depth_, p.depth = in_.c;
  p.tiles = round_up(block.tiles(), winograd_kernels().row_tile);
  p.b_position = filter_position_, p.b_panel = in_.c * panel_;
  p.c = own.out, p.c_position = out_position_, p.c_row = together_;
  p.read = next_input(index, own.image);
  if (blocks_.column_blocks == 1) {
    const PixelRows rows = blocks_.own_rows(block);
    const int64_t row = blocks_.plane.w * out_c_;
    p.write = {out + rows.first * row, rows.count * row, 0, 1};
  }
  const int64_t end = parts_ > 1 ? std::min(columns_, (part + 1) * together_) : columns_;
  for (int64_t j = part * together_; j < end; j += together_) {
    p.b = u + j * in_.c;
    p.columns = std::min(together_, columns_ - j);
    winograd_kernels().product(p);
    p.read = p.write = {};
    write(block, j, std::min(p.columns, out_c_ - j), own.out, out);
  }
}

void WinogradConvolution::finish(int64_t index, float* out, const Epilogue<float>& epilogue) const {
  blocks_.for_ranges(blocks_.block(index), [&](int64_t pixel, int64_t pixels) {
    epilogue.apply(epilogue.context, out + pixel * out_c_, pixel * out_c_, pixels * out_c_);
  });
}

void WinogradConvolution::run(ThreadPool& pool, const float* in, const float* filters, float* out,
                              void* scratch, const ConvHooks<float>& hooks) const {
  const Epilogue<float>& epilogue = hooks.epilogue;
  const Scratch all = lay_out(pool.size(), hooks.prologue.read != nullptr, scratch);
  transform_filters(pool, filters, all);
  pool.parallel_for_thread(parts_ * blocks_.count, [&](int64_t task, int thread) {
    const Own own{in, hooks.prologue, all.in + thread * positions_ * in_position_,
                  all.out + thread * positions_ * out_position_,
                  all.window + thread * blocks_.window(in_)};
    const int64_t index = task % blocks_.count;
    run_part(index, task / blocks_.count, all.filters, out, own);
    if (epilogue.apply && parts_ == 1) finish(index, out, epilogue);
  });
  if (epilogue.apply && parts_ > 1)  // whole pixels
    pool.parallel_for(blocks_.count, [&](int64_t index) { finish(index, out, epilogue); });
}

}  // namespace

bool winograd_takes_prologue(ConvPass pass, const ConvShape& shape) {
  return pass != ConvPass::weight_grad || winograd_weight_grad_takes_prologue(shape);
}

size_t winograd_scratch(ConvPass pass, const ConvShape& shape, int m, int threads, bool prologue) {
  if (pass == ConvPass::weight_grad)
    return winograd_weight_grad_scratch(shape, m, threads, prologue);
  return WinogradConvolution(pass, shape, m).lay_out(threads, prologue, nullptr).size;
}

std::unique_ptr<Convolution<float>> make_winograd(ConvPass pass, const ConvShape& shape, int m) {
  if (pass == ConvPass::weight_grad) return make_winograd_weight_grad(shape, m);
  return std::make_unique<WinogradConvolution>(pass, shape, m);
}

}  // namespace tessera
