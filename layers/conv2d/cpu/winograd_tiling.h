// TileBlocks: the blocks of tiles of a Winograd convolution, from the shape alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/layers/conv2d/cpu/convolution.h"
#include "tessera/layers/conv2d/cpu/winograd_simd.h"
#include "tessera/layers/shared/epilogue_hook.h"

namespace tessera {

inline const WinogradMicrokernels& winograd_kernels() {
  return TESSERA_SELECT_AVX_MICROKERNELS(winograd_microkernels);
}
inline const WinogradTransforms& winograd_transforms(const ConvShape& shape, int m) {
  const WinogradMicrokernels& all = winograd_kernels();
  return shape.stride_h == 2 ? all.f4_stride2 : m == 4 ? all.f4 : all.f2;
}

// Padding between positions of a transformed block: a cache line, in floats. Most sizes are powers
// of two, which would put all positions of a tile in a few sets of the cache.
inline constexpr int64_t kWinogradSkew = 16;

// Images of h x w pixels in tiles of m x m.
struct TilePlane {
  TilePlane(int64_t n, int64_t h, int64_t w, int64_t m);

  int64_t n, h, w, m;
  int64_t rows, columns;  // tiles in an image
  int64_t tiles() const { return n * rows * columns; }
};

// Returns the tiles of a pass's output or, for the weight gradient, of dy.
TilePlane tile_plane(const ConvShape& shape, const WinogradTransforms& transforms, ConvPass pass);

// Some tiles of a plane: all of several images, several rows of one image, or a part of a row.
struct TileBlock {
  int64_t image, images, row, rows, column, columns;
  int64_t tiles() const { return images * rows * columns; }
};

// Images that a pass reads: h x w pixels with c channels, `pad` zeros around them, in tiles of
// `size` pixels a side, `step` apart.
struct ImageRead {
  int64_t h, w, c, pad_h, pad_w, size, step;
};
// Returns the images that a pass reads.
ImageRead image_read(const ConvShape& shape, const WinogradTransforms& transforms, ConvPass pass);

// A view of an image: pixel (y, x) is at base + y * row + x * c.
template <class S>
struct ImageView {
  const S* base;
  int64_t row;
};

// Rows of pixels, counted over all images.
struct PixelRows {
  int64_t first, count;
};

// A plane in blocks of about `wanted` tiles.
struct TileBlocks {
  TileBlocks(const TilePlane& plane, int64_t wanted);

  TilePlane plane;
  int64_t images, rows, columns;  // size of a whole block
  int64_t row_blocks, column_blocks, count;
  int64_t tiles() const { return images * rows * columns; }  // maximum of a block
  TileBlock block(int64_t index) const;

  // Returns the rows that a block reads, without those that it shares with the block above.
  // Requires blocks of whole rows of tiles.
  PixelRows new_rows(const TileBlock& block, const ImageRead& shape) const;
  // Returns the block's own rows.
  PixelRows own_rows(const TileBlock& block) const;

  // Returns the part of `image` that a block reads: in place, or in `window` if a prologue computes
  // it.
  template <class S>
  ImageView<S> read(const TileBlock& block, int64_t image, const ImageRead& shape, const S* in,
                    const Prologue<S>& prologue, S* window) const;
  // Returns the elements of the largest window.
  int64_t window(const ImageRead& shape) const;

  // Calls run(first pixel, pixels) for the contiguous ranges of a block; pixels count over all
  // images.
  template <class F>
  void for_ranges(const TileBlock& b, F run) const {
    if (b.columns == plane.columns) {
      const PixelRows own = own_rows(b);
      return run(own.first * plane.w, own.count * plane.w);
    }
    const int64_t left = b.column * plane.m, right = std::min(plane.w, left + b.columns * plane.m);
    const int64_t last = std::min(plane.h, (b.row + b.rows) * plane.m);
    for (int64_t y = b.row * plane.m; y < last; ++y)
      run((b.image * plane.h + y) * plane.w + left, right - left);
  }
};

// Calls run(y, x) for each tile of a block in one of its images. (y, x) is the tile's first pixel
// if tiles are `step` pixels apart.
template <class F>
void for_tiles_of_image(const TileBlock& b, int64_t step, F run) {
  for (int64_t r = b.row; r < b.row + b.rows; ++r)
    for (int64_t c = b.column; c < b.column + b.columns; ++c) run(r * step, c * step);
}

// Returns the part of a tile of `size` pixels a side at (y, x) that is in an image of h x w.
WinogradExtent inside(int64_t y, int64_t x, int64_t size, int64_t h, int64_t w);

}  // namespace tessera
