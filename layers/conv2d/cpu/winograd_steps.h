// WinogradSteps: the steps of a Winograd convolution or its input gradient that do not depend on
// their order: transforms of filters, of blocks of tiles, and back.
#pragma once

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/conv2d/cpu/winograd_tiling.h"

namespace tessera {

// Scratch of a convolution that reads images of S. Pointers to a thread's memory are those of the
// first thread.
template <class S>
struct WinogradScratch {
  // Transformed filters: [position][panel][input channel][panel's width]; own_filters: those in
  // this scratch.
  float* own_filters;
  const float* filters;
  float *in, *out;  // transformed tiles; `out` is per thread
  float* wide;      // filters in float32 if they are not
  S* window;        // per thread: a prologue's output for the part of an image
  float* result;    // blocks of the result, if it is passed on in ranges
  size_t size;
};

// Pixel (y, x) of image i of a result is at base + i * image + y * row + x * channels.
struct WinogradResult {
  float* base;
  int64_t image, row;
};

struct WinogradSteps {
  // `tiles`: target number in a block. `columns_per_block`: output channels that are computed
  // before they are transformed back, in whole panels.
  WinogradSteps(ConvPass pass, const ConvShape& shape, int m, int64_t tiles,
                int64_t columns_per_block);

  // Input channels of a chunk. Filters are transformed for one chunk and one panel of output
  // channels at once.
  static constexpr int64_t kDepth = 16;
  int64_t chunks() const;  // chunks of input channels
  // Transforms the filters of the panel from output channel j on for a chunk. `to` is the start of
  // the panel, [position][input channel][panel's width].
  void transform_filters(const float* w, int64_t j, int64_t chunk, float* to,
                         int64_t to_position) const;
  // Transforms all filters.
  void transform_all(ThreadPool& pool, const float* w, float* to, int64_t to_position) const;

  // Transforms the tiles of a block to [position][tile][depth]. `window` holds blocks.window(in)
  // elements if there is a prologue.
  template <class S>
  void read(const TileBlock& block, const S* image, const Prologue<S>& prologue, S* window,
            float* to) const;
  // Zeroes the rows past the last tile. The product reads whole row tiles; its results for these
  // rows are unused.
  void clear_rest(int64_t tiles, float* to) const;
  // Returns the result that begins at `out`, or that has only one block, at `own`.
  WinogradResult whole_result(float* out) const;
  WinogradResult result_of(const TileBlock& block, float* own) const;
  int64_t result_elements() const;  // for one block
  // Transforms output channels [first, first + count) of a block back.
  void write(const TileBlock& block, int64_t first, int64_t count, const float* from,
             const WinogradResult& to) const;
  // Applies the epilogue to a block.
  void finish(const TileBlock& block, const WinogradResult& result,
              const Epilogue<float>& epilogue) const;
  // Returns the product of a block with the filters of `count` output channels, which begin at u.
  WinogradProduct product(const TileBlock& block, const float* in, const float* u,
                          int64_t u_position, int64_t count, float* out) const;

  // Lays out scratch at `base` with `filters` sets of filters, `filter_position` elements for each
  // position, `tile_blocks` blocks of tiles and `results` blocks of the result. of_thread() returns
  // a thread's part, except for filters, `in` and `result`.
  template <class S>
  WinogradScratch<S> lay_out(void* base, int64_t filters, int64_t filter_position,
                             int64_t tile_blocks, int threads, bool prologue,
                             int64_t results) const;
  template <class S>
  WinogradScratch<S> of_thread(const WinogradScratch<S>& all, int thread) const;

  const bool backward;
  const WinogradTransforms& transforms;
  const WinogradPass& transform;  // transform of the pass
  const int64_t positions, filter_positions;
  const ImageRead in;
  const int64_t out_c;
  const TileBlocks blocks;
  const int64_t panel, depth, columns;  // depth, columns: input, output channels in whole vectors
  const int64_t tiles;                  // tiles of a block, in whole row tiles
  const int64_t columns_per_block;
  const int64_t in_position, out_position;  // elements from one position to the next
};

}  // namespace tessera
