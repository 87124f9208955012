// The steps of a Winograd convolution, forward or with respect to its input, that are the same in
// whatever order they are done: transforms of filters, of blocks of tiles, and back.
#pragma once

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/conv2d/cpu/winograd_tiling.h"

namespace tessera {

// Where a convolution works. Of what each thread has, the first thread's.
struct WinogradScratch {
  // Transformed: [position][panel][input channel][panel's width]; own: those that stand here.
  float* own_filters;
  const float* filters;
  float *in, *out;  // transformed tiles; `out` is each thread's
  float* window;    // each thread's: what a prologue makes of the part of an image
  size_t size;
};

struct WinogradSteps {
  // `tiles`: wanted in a block. `vectorized`: output channels that are computed before they are
  // transformed back, whole panels.
  WinogradSteps(ConvPass pass, const ConvShape& shape, int m, int64_t tiles, int64_t vectorized);

  // Filters are transformed for a panel of output channels and so many input channels at once.
  static constexpr int64_t kDepth = 16;
  int64_t chunks() const;  // of input channels
  // Transforms the filters of the panel from output channel j on for a chunk. `to` is where the
  // panel begins, [position][input channel][panel's width].
  void transform_filters(const float* w, int64_t j, int64_t chunk, float* to,
                         int64_t to_position) const;
  // All filters.
  void transform_all(ThreadPool& pool, const float* w, float* to, int64_t to_position) const;

  // Transforms the tiles of a block, [position][tile][depth]. `window` holds blocks.window(in),
  // where there is a prologue.
  void read(const TileBlock& block, const float* image, const Prologue<float>& prologue,
            float* window, float* to) const;
  // The product takes whole row tiles; what it computes of those past the last tile is not used.
  void clear_rest(int64_t tiles, float* to) const;
  // Transforms output channels [first, first + count) of a block back.
  void write(const TileBlock& block, int64_t first, int64_t count, const float* from,
             float* out) const;
  // Applies the epilogue to a block.
  void finish(const TileBlock& block, float* out, const Epilogue<float>& epilogue) const;
  // A product of a block with `count` output channels, whose filters begin at u.
  WinogradProduct product(const TileBlock& block, const float* in, const float* u,
                          int64_t u_position, int64_t count, float* out) const;

  // Scratch at `base` with so many filters, of `filter_position` elements each position, and blocks
  // of tiles; and the part of it that a thread has, filters and `in` aside.
  WinogradScratch lay_out(void* base, int64_t filters, int64_t filter_position, int64_t tile_blocks,
                          int threads, bool prologue) const;
  WinogradScratch of_thread(const WinogradScratch& all, int thread) const;

  const bool backward;
  const WinogradTransforms& transforms;
  const WinogradPass& transform;  // of the pass
  const int64_t positions, filter_positions;
  const ImageRead in;
  const int64_t out_c;
  const TileBlocks blocks;
  const int64_t panel, depth, columns;  // columns: output channels in whole vectors; so depth
  const int64_t tiles;                  // of a block, in whole row tiles
  const int64_t vectorized;
  const int64_t in_position, out_position;  // elements from one position to the next
};

}  // namespace tessera
