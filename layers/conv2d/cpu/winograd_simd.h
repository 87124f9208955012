// Microkernels of Winograd convolutions (winograd.h): transforms of single tiles, over all their
// channels, and the products between transforms.
//
// A transformed block is [positions][tiles][channels], positions `position` elements apart and
// channels padded to whole vectors.
#pragma once

#include <cstdint>

#include "tessera/engine/dtype.h"
#include "tessera/runtime/simd/isa.h"

namespace tessera {

// Rows [row_begin, row_end) and columns [column_begin, column_end) of a tile are in the image; the
// others are zero, or are not written.
struct WinogradExtent {
  int row_begin, row_end, column_begin, column_end;
};

// A tile of an image and its transform; one is read and the other written. `image` points at the
// tile's first pixel, which may be outside the image.
template <class Image, class Block>
struct WinogradTile {
  Image* image;
  int64_t row, pixel;  // elements from one row or pixel to the next
  WinogradExtent inside;
  int64_t channels;
  Block* block;
  int64_t position;
};
template <class S>
using WinogradRead = WinogradTile<const S, float>;
using WinogradWrite = WinogradTile<float, const float>;

// A transform of a tile of an image of either type.
struct WinogradReader {
  void (*f32)(const WinogradRead<float>&);
  void (*bf16)(const WinogradRead<bfloat16>&);
  void operator()(const WinogradRead<float>& tile) const { f32(tile); }
  void operator()(const WinogradRead<bfloat16>& tile) const { bf16(tile); }
};

// Memory that a product prefetches for the next computation: `runs` runs of `length` bytes,
// `stride` bytes apart.
struct WinogradFetch {
  WinogradFetch() = default;
  // Elements of S.
  template <class S>
  WinogradFetch(const S* begin, int64_t length, int64_t stride, int64_t runs)
      : begin(reinterpret_cast<const char*>(begin)),
        length(length * static_cast<int64_t>(sizeof(S))),
        stride(stride * static_cast<int64_t>(sizeof(S))),
        runs(runs) {}
  const char* begin = nullptr;
  int64_t length = 0, stride = 0, runs = 0;
};

// C[p][t][j] (+)= sum over k of A[p][t][k] B[q][j / panel][k][j % panel] for each position p, with
// the filters' position q = filter_of[p]: `tiles` rows, a multiple of the row tile, and `columns`
// columns, a multiple of lanes. A panel has two vectors; the last one may have one.
struct WinogradProduct {
  int64_t positions;
  const uint8_t* filter_of;
  const float* a;
  int64_t a_position, a_row, tiles, depth;
  const float* b;
  int64_t b_position, b_panel;  // b_panel: elements from one panel to the next
  float* c;
  int64_t c_position, c_row, columns;
  bool accumulate;            // add to C instead of writing it
  bool fetch_filters;         // B is not in the cache: prefetch each next panel
  WinogradFetch read, write;  // prefetched: next input, and memory of this block's outputs
};

// C[filter_of[p]][i][j] (+)= sum over t of A[p][t][i] B[p][t][j], for all positions p together:
// `rows` rows, a multiple of the row tile.
struct WinogradSum {
  int64_t positions;
  const uint8_t* filter_of;
  const float* a;
  int64_t a_position, a_tile, rows;
  const float* b;
  int64_t b_position, b_tile, columns, tiles;
  float* c;
  int64_t c_position, c_row;
  bool accumulate;  // add to C instead of writing it
  WinogradFetch fetch[2];
};

// Filters [k][tap][j] and their transforms [position][k][j], j < columns, or the other way round.
// Transforms are read and written in whole vectors.
struct WinogradFilters {
  const float* from;
  int64_t from_k, from_position;  // elements from one k, or one tap or position, to the next
  float* to;
  int64_t to_k, to_position;
  int64_t depth, columns;
  bool flip;    // taps from the last to the first
  bool rounds;  // filters to bfloat16 before the transform
};

// A pass reads tiles of in x in pixels, `step` apart, and writes tiles of out x out.
struct WinogradPass {
  int in, step, out;
  WinogradReader input;                  // block = B^T image B
  void (*output)(const WinogradWrite&);  // image = A^T block A
};

struct WinogradTransforms {
  int positions, filter_positions;
  // The filter position that each position of a tile is multiplied by.
  const uint8_t* filter_of;
  WinogradPass forward, input_grad;
  WinogradReader gradient;                          // tiles of dy: block = A image A^T
  void (*filters)(const WinogradFilters&);          // to = G from G^T
  void (*filter_gradient)(const WinogradFilters&);  // to = G^T from G
};

struct WinogradMicrokernels {
  int lanes, row_tile;
  WinogradTransforms f2, f4, f4_stride2;
  void (*product)(const WinogradProduct&);
  void (*sum)(const WinogradSum&);
};

TESSERA_DECLARE_AVX_MICROKERNELS(WinogradMicrokernels, winograd_microkernels)

}  // namespace tessera
