#include "tessera/layers/conv2d/cpu/winograd_steps.h"

#include <algorithm>

#include "tessera/layers/conv2d/cpu/microkernels.h"
#include "tessera/layers/shared/scratch_layout.h"
#include "tessera/runtime/integers.h"

namespace tessera {

namespace {

// Filters with adjacent output channels, before their transform: 2 vectors of 16 wide.
constexpr int64_t kMaxTransposed = 9 * WinogradSteps::kDepth * 2 * 16;

}  // namespace

WinogradSteps::WinogradSteps(ConvPass pass, const ConvShape& s, int m, int64_t wanted,
                             int64_t max_columns_per_block)
    : backward(pass == ConvPass::input_grad),
      transforms(winograd_transforms(s, m)),
      transform(backward ? transforms.input_grad : transforms.forward),
      positions(transforms.positions),
      filter_positions(transforms.filter_positions),
      in(image_read(s, transforms, pass)),
      out_c(backward ? s.c : s.o),
      blocks(tile_plane(s, transforms, pass), wanted),
      panel(2 * winograd_kernels().lanes),
      depth(round_up(in.c, winograd_kernels().lanes)),
      columns(round_up(out_c, winograd_kernels().lanes)),
      tiles(round_up(blocks.tiles(), winograd_kernels().row_tile)),
      columns_per_block(std::min(columns, max_columns_per_block)),
      in_position(tiles * depth + kWinogradSkew),
      out_position(tiles * columns_per_block + kWinogradSkew) {}

int64_t WinogradSteps::chunks() const { return ceil_div(in.c, kDepth); }

void WinogradSteps::transform_filters(const float* w, int64_t j, int64_t chunk, float* to,
                                      int64_t to_position) const {
  alignas(64) float transposed[kMaxTransposed];
  const int64_t k = chunk * kDepth, some = std::min(kDepth, in.c - k);
  const int64_t width = std::min(panel, columns - j), count = std::min(width, out_c - j);
  WinogradFilters f{};
  f.to = to + k * width;
  f.to_k = width, f.to_position = to_position;
  f.depth = some;
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

// Transforms all filters; each task is a panel of output channels for some input channels.
void WinogradSteps::transform_all(ThreadPool& pool, const float* w, float* to,
                                  int64_t to_position) const {
  pool.parallel_for(chunks() * ceil_div(columns, panel), [&](int64_t task) {
    const int64_t j = task / chunks() * panel;
    transform_filters(w, j, task % chunks(), to + j * in.c, to_position);
  });
}

template <class S>
void WinogradSteps::read(const TileBlock& block, const S* image, const Prologue<S>& prologue,
                         S* window, float* to) const {
  for (int64_t i = block.image; i < block.image + block.images; ++i) {
    const ImageView<S> from = blocks.read(block, i, in, image, prologue, window);
    for_tiles_of_image(block, in.step, [&](int64_t y, int64_t x) {
      y -= in.pad_h, x -= in.pad_w;
      transform.input(WinogradRead<S>{from.base + y * from.row + x * in.c, from.row, in.c,
                                      inside(y, x, in.size, in.h, in.w), in.c, to, in_position});
      to += depth;
    });
  }
}

void WinogradSteps::clear_rest(int64_t count, float* to) const {
  const int64_t end = round_up(count, winograd_kernels().row_tile);
  for (int64_t p = 0; p < positions; ++p)
    std::fill(to + p * in_position + count * depth, to + p * in_position + end * depth, 0.0f);
}

WinogradResult WinogradSteps::whole_result(float* out) const {
  const int64_t row = blocks.plane.w * out_c;
  return {out, blocks.plane.h * row, row};
}

WinogradResult WinogradSteps::result_of(const TileBlock& b, float* own) const {
  const int64_t m = blocks.plane.m;
  const int64_t w = b.columns == blocks.plane.columns ? blocks.plane.w : b.columns * m;
  const int64_t row = w * out_c, image = blocks.plane.h * row;
  return {own - b.image * image - b.row * m * row - b.column * m * out_c, image, row};
}

int64_t WinogradSteps::result_elements() const {
  const int64_t m = blocks.plane.m;
  return blocks.images * std::min(blocks.plane.h, blocks.rows * m) *
         std::min(blocks.plane.w, blocks.columns * m) * out_c;
}

void WinogradSteps::write(const TileBlock& block, int64_t first, int64_t count, const float* from,
                          const WinogradResult& to) const {
  const int64_t h = blocks.plane.h, w = blocks.plane.w, m = blocks.plane.m;
  for (int64_t i = block.image; i < block.image + block.images; ++i)
    for_tiles_of_image(block, m, [&](int64_t y, int64_t x) {
      transform.output({to.base + i * to.image + y * to.row + x * out_c + first, to.row, out_c,
                        inside(y, x, m, h, w), count, from, out_position});
      from += columns_per_block;
    });
}

void WinogradSteps::finish(const TileBlock& block, const WinogradResult& result,
                           const Epilogue<float>& epilogue) const {
  const int64_t h = blocks.plane.h, w = blocks.plane.w;
  blocks.for_ranges(block, [&](int64_t pixel, int64_t pixels) {
    float* const rows = result.base + pixel / (h * w) * result.image + pixel / w % h * result.row +
                        pixel % w * out_c;
    epilogue.apply(epilogue.context, rows, pixel * out_c, pixels * out_c);
  });
}

WinogradProduct WinogradSteps::product(const TileBlock& block, const float* a, const float* u,
                                       int64_t u_position, int64_t count, float* out) const {
  WinogradProduct p{};
  p.positions = positions, p.filter_of = transforms.filter_of;
  p.a = a, p.a_position = in_position, p.a_row = depth, p.depth = in.c;
  p.tiles = round_up(block.tiles(), winograd_kernels().row_tile);
  p.b = u, p.b_position = u_position, p.b_panel = in.c * panel;
  p.c = out, p.c_position = out_position, p.c_row = columns_per_block, p.columns = count;
  return p;
}

template <class S>
WinogradScratch<S> WinogradSteps::lay_out(void* base, int64_t filters, int64_t filter_position,
                                          int64_t tile_blocks, int threads, bool prologue,
                                          int64_t results) const {
  ScratchLayout layout(base);
  WinogradScratch<S> all{};
  all.own_filters = layout.take<float>(filters * filter_positions * filter_position);
  all.filters = all.own_filters;
  all.in = layout.take<float>(tile_blocks * positions * in_position);
  all.out = layout.take<float>(threads * positions * out_position);
  if (!std::is_same_v<S, float>) all.wide = layout.take<float>(9 * in.c * out_c);
  all.window = layout.take<S>(prologue ? threads * blocks.window(in) : 0);
  all.result = layout.take<float>(results * result_elements());
  all.size = layout.size();
  return all;
}

template <class S>
WinogradScratch<S> WinogradSteps::of_thread(const WinogradScratch<S>& all, int thread) const {
  WinogradScratch<S> own = all;
  own.out += thread * positions * out_position;
  own.window += thread * blocks.window(in);
  return own;
}

#define TESSERA_WINOGRAD_STEPS(S)                                                                 \
  template void WinogradSteps::read(const TileBlock&, const S*, const Prologue<S>&, S*, float*)   \
      const;                                                                                      \
  template WinogradScratch<S> WinogradSteps::lay_out(void*, int64_t, int64_t, int64_t, int, bool, \
                                                     int64_t) const;                              \
  template WinogradScratch<S> WinogradSteps::of_thread(const WinogradScratch<S>&, int) const;
TESSERA_WINOGRAD_STEPS(float)
TESSERA_WINOGRAD_STEPS(bfloat16)

}  // namespace tessera
