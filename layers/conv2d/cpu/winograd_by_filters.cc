// Convolutions with so many filters that their transforms would not stay in L3: a large block of
// tiles is transformed first, and a task takes some output channels, whose filters it transforms
// for itself, from there to the result.
#include <algorithm>

#include "tessera/layers/conv2d/cpu/winograd.h"
#include "tessera/layers/conv2d/cpu/winograd_steps.h"
#include "tessera/runtime/integers.h"

namespace tessera {
namespace {

// Of transformed filters, measured with 32 MiB of L3 for two cores.
constexpr int64_t kFilterBytes = 16 << 20;
// Tiles for which the filters are transformed once, with 36 positions or fewer and with
// 81, and output channels of a task: what a position takes of both stays in L2.
constexpr int64_t kTilesStride1 = 128, kTilesStride2 = 64;
constexpr int64_t kFiltersTogether = 32;

class WinogradByFilters final : public Convolution<float> {
 public:
  WinogradByFilters(ConvPass pass, const ConvShape& shape, int m, ConvForm form)
      : s_(pass, shape, m, shape.stride_h == 2 ? kTilesStride2 : kTilesStride1, kFiltersTogether),
        filter_position_(s_.in.c * (form.packed ? s_.columns : s_.together) + kWinogradSkew),
        form_(form) {}
  size_t scratch(int threads) const override { return lay_out(threads, nullptr).size; }
  void run(ThreadPool& pool, const float* in, const float* filters, float* out, void* scratch,
           const ConvHooks<float>& hooks) const override;
  int64_t packed_elements() const override { return s_.filter_positions * filter_position_; }
  void pack(ThreadPool& pool, const float* w, float* packed) const override {
    s_.transform_all(pool, w, packed, filter_position_);
  }

 private:
  // Each thread has filters of its own; the tiles are of all.
  WinogradScratch lay_out(int threads, void* base) const {
    return s_.lay_out(base, form_.packed ? 0 : threads, filter_position_, 1, threads,
                      form_.prologue);
  }
  void read(ThreadPool& pool, const TileBlock& block, const float* in,
            const Prologue<float>& prologue, const WinogradScratch& all) const;
  void run_part(const TileBlock& block, int64_t part, const float* w, float* out,
                const WinogradScratch& own) const;

  const WinogradSteps s_;
  const int64_t filter_position_;
  const ConvForm form_;
};

// A row of tiles is a task.
void WinogradByFilters::read(ThreadPool& pool, const TileBlock& block, const float* in,
                             const Prologue<float>& prologue, const WinogradScratch& all) const {
  s_.clear_rest(block.tiles(), all.in);
  pool.parallel_for_thread(block.images * block.rows, [&](int64_t task, int thread) {
    TileBlock row = block;
    row.image += task / block.rows, row.images = 1;
    row.row += task % block.rows, row.rows = 1;
    s_.read(row, in, prologue, s_.of_thread(all, thread).window,
            all.in + task * block.columns * s_.depth);
  });
}

void WinogradByFilters::run_part(const TileBlock& block, int64_t part, const float* w, float* out,
                                 const WinogradScratch& own) const {
  const int64_t first = part * s_.together, count = std::min(s_.together, s_.columns - first);
  for (int64_t j = 0; j < count && !form_.packed; j += s_.panel)
    for (int64_t chunk = 0; chunk < s_.chunks(); ++chunk)
      s_.transform_filters(w, first + j, chunk, own.own_filters + j * s_.in.c, filter_position_);
  const float* filters = form_.packed ? w + first * s_.in.c : own.own_filters;
  winograd_kernels().product(s_.product(block, own.in, filters, filter_position_, count, own.out));
  s_.write(block, first, std::min(count, s_.out_c - first), own.out, out);
}

void WinogradByFilters::run(ThreadPool& pool, const float* in, const float* filters, float* out,
                            void* scratch, const ConvHooks<float>& hooks) const {
  const WinogradScratch all = lay_out(pool.size(), scratch);
  for (int64_t index = 0; index < s_.blocks.count; ++index) {
    const TileBlock block = s_.blocks.block(index);
    read(pool, block, in, hooks.prologue, all);
    pool.parallel_for_thread(ceil_div(s_.columns, s_.together), [&](int64_t part, int thread) {
      WinogradScratch own = s_.of_thread(all, thread);
      if (!form_.packed) own.own_filters += thread * s_.filter_positions * filter_position_;
      run_part(block, part, filters, out, own);
    });
    if (!hooks.epilogue.apply) continue;
    pool.parallel_for(block.images, [&](int64_t i) {  // whole pixels
      TileBlock image = block;
      image.image += i, image.images = 1;
      s_.finish(image, out, hooks.epilogue);
    });
  }
}

}  // namespace

bool winograd_goes_by_filters(const ConvShape& s, int m) {
  const int64_t weights = winograd_transforms(s, m).filter_positions * s.c * s.o;
  return weights * static_cast<int64_t>(sizeof(float)) > kFilterBytes;
}

std::unique_ptr<AnyConvolution> make_winograd_by_filters(ConvPass pass, const ConvShape& shape,
                                                         int m, ConvForm form) {
  return std::make_unique<WinogradByFilters>(pass, shape, m, form);
}

}  // namespace tessera
