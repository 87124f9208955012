// Convolutions tile by tile: all filters are transformed first, and a task takes a block of tiles
// from the image to the result, with its transforms in L2.
#include "tessera/layers/conv2d_cpu/winograd.h"

#include <algorithm>

#include "tessera/layers/conv2d_cpu/winograd_steps.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// Tiles of a task: the transforms of 36 positions are to stay in L2 beside a part of the filters'.
// With 81, blocks of 8, 16 and 32 tiles take the same time.
constexpr int64_t kTiles = 16;
// Output channels that are computed before they are transformed back.
constexpr int64_t kTogether = 128;
// Tasks wanted. With fewer blocks of tiles the output channels are cut too, and each part
// transforms the tiles anew.
constexpr int64_t kTasks = 16;

class WinogradConvolution final : public Convolution<float> {
 public:
  WinogradConvolution(ConvPass pass, const ConvShape& shape, int m, bool packed)
      : s_(pass, shape, m, kTiles, kTogether),
        parts_(s_.blocks.count < kTasks ? ceil_div(s_.columns, s_.together) : 1),
        filter_position_(s_.in.c * s_.columns + kWinogradSkew),
        packed_(packed) {}
  void run(ThreadPool& pool, const float* in, const float* filters, float* out, void* scratch,
           const ConvHooks<float>& hooks) const override;
  WinogradScratch lay_out(int threads, bool prologue, void* base) const {
    return s_.lay_out(base, packed_ ? 0 : 1, filter_position_, threads, threads, prologue);
  }
  int64_t packed_elements() const override { return s_.filter_positions * filter_position_; }
  void pack(ThreadPool& pool, const float* w, float* packed) const override {
    s_.transform_all(pool, w, packed, filter_position_);
  }

 private:
  WinogradFetch next_input(int64_t index, const float* in) const;
  void run_part(int64_t index, int64_t part, const float* in, float* out,
                const Prologue<float>& prologue, const WinogradScratch& own) const;

  const WinogradSteps s_;
  const int64_t parts_, filter_position_;
  const bool packed_;
};

// The rows that the next block reads and this one has not.
WinogradFetch WinogradConvolution::next_input(int64_t index, const float* in) const {
  if (index + 1 >= s_.blocks.count || s_.blocks.column_blocks > 1) return {};
  const PixelRows rows = s_.blocks.new_rows(s_.blocks.block(index + 1), s_.in);
  return {in + rows.first * s_.in.w * s_.in.c, rows.count * s_.in.w * s_.in.c, 0, 1};
}

void WinogradConvolution::run_part(int64_t index, int64_t part, const float* in, float* out,
                                   const Prologue<float>& prologue,
                                   const WinogradScratch& own) const {
  const TileBlock block = s_.blocks.block(index);
  s_.read(block, in, prologue, own.window, own.in);
  s_.clear_rest(block.tiles(), own.in);
  WinogradFetch read = next_input(index, in), write = {};
  if (s_.blocks.column_blocks == 1) {
    const PixelRows rows = s_.blocks.own_rows(block);
    const int64_t row = s_.blocks.plane.w * s_.out_c;
    write = {out + rows.first * row, rows.count * row, 0, 1};
  }
  const int64_t end = parts_ > 1 ? std::min(s_.columns, (part + 1) * s_.together) : s_.columns;
  for (int64_t j = part * s_.together; j < end; j += s_.together) {
    const int64_t count = std::min(s_.together, s_.columns - j);
    WinogradProduct p =
        s_.product(block, own.in, own.filters + j * s_.in.c, filter_position_, count, own.out);
    p.read = read, p.write = write;
    winograd_kernels().product(p);
    read = write = {};
    s_.write(block, j, std::min(count, s_.out_c - j), own.out, out);
  }
}

void WinogradConvolution::run(ThreadPool& pool, const float* in, const float* filters, float* out,
                              void* scratch, const ConvHooks<float>& hooks) const {
  const Epilogue<float>& epilogue = hooks.epilogue;
  WinogradScratch all = lay_out(pool.size(), hooks.prologue.read != nullptr, scratch);
  if (packed_)
    all.filters = filters;
  else
    s_.transform_all(pool, filters, all.own_filters, filter_position_);
  pool.parallel_for_thread(parts_ * s_.blocks.count, [&](int64_t task, int thread) {
    WinogradScratch own = s_.of_thread(all, thread);
    own.in += thread * s_.positions * s_.in_position;
    const int64_t index = task % s_.blocks.count;
    run_part(index, task / s_.blocks.count, in, out, hooks.prologue, own);
    if (epilogue.apply && parts_ == 1) s_.finish(s_.blocks.block(index), out, epilogue);
  });
  if (epilogue.apply && parts_ > 1)  // whole pixels
    pool.parallel_for(s_.blocks.count,
                      [&](int64_t index) { s_.finish(s_.blocks.block(index), out, epilogue); });
}

}  // namespace

bool winograd_takes_prologue(ConvPass pass, const ConvShape& shape) {
  return pass != ConvPass::weight_grad || winograd_weight_grad_takes_prologue(shape);
}

size_t winograd_scratch(ConvPass pass, const ConvShape& shape, int m, int threads, ConvForm form) {
  if (pass == ConvPass::weight_grad)
    return winograd_weight_grad_scratch(shape, m, threads, form.prologue);
  if (winograd_goes_by_filters(shape, m))
    return winograd_by_filters_scratch(pass, shape, m, threads, form);
  return WinogradConvolution(pass, shape, m, form.packed)
      .lay_out(threads, form.prologue, nullptr)
      .size;
}

std::unique_ptr<Convolution<float>> make_winograd(ConvPass pass, const ConvShape& shape, int m,
                                                  bool packed) {
  if (pass == ConvPass::weight_grad) return make_winograd_weight_grad(shape, m);
  if (winograd_goes_by_filters(shape, m)) return make_winograd_by_filters(pass, shape, m, packed);
  return std::make_unique<WinogradConvolution>(pass, shape, m, packed);
}

}  // namespace tessera
