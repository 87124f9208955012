#include "tessera/layers/conv2d/cpu/winograd_tiling.h"

#include <algorithm>
#include <initializer_list>

#include "tessera/layers/conv2d/cpu/winograd.h"
#include "tessera/runtime/integers.h"

namespace tessera {

TilePlane::TilePlane(int64_t n, int64_t h, int64_t w, int64_t m)
    : n(n), h(h), w(w), m(m), rows(ceil_div(h, m)), columns(ceil_div(w, m)) {}

TilePlane tile_plane(const ConvShape& s, const WinogradTransforms& transforms, ConvPass pass) {
  if (pass == ConvPass::input_grad) return {s.n, s.h, s.w, transforms.input_grad.out};
  return {s.n, s.out_h(), s.out_w(), transforms.forward.out};
}

ImageRead image_read(const ConvShape& s, const WinogradTransforms& transforms, ConvPass pass) {
  const bool back = pass == ConvPass::input_grad;
  const WinogradPass& tiles = back ? transforms.input_grad : transforms.forward;
  if (!back) return {s.h, s.w, s.c, s.pad_h, s.pad_w, tiles.in, tiles.step};
  // The first pixel of dy that dx[0] depends on is (2 - pad) / stride before dy[0].
  return {s.out_h(), s.out_w(), s.o, (2 - s.pad_h) / s.stride_h, (2 - s.pad_w) / s.stride_w,
          tiles.in,  tiles.step};
}

TileBlocks::TileBlocks(const TilePlane& plane, int64_t wanted) : plane(plane) {
  const int64_t of_image = std::max<int64_t>(1, plane.rows * plane.columns);
  images = std::clamp<int64_t>(wanted / of_image, 1, std::max<int64_t>(1, plane.n));
  rows = columns = 1;
  if (of_image <= wanted) {
    rows = plane.rows, columns = plane.columns;
  } else if (plane.columns <= wanted) {  // blocks of nearly equal size
    columns = plane.columns;
    rows = ceil_div(plane.rows, ceil_div(plane.rows, wanted / plane.columns));
  } else {
    columns = ceil_div(plane.columns, ceil_div(plane.columns, wanted));
  }
  row_blocks = ceil_div(plane.rows, std::max<int64_t>(1, rows));
  column_blocks = ceil_div(plane.columns, std::max<int64_t>(1, columns));
  count = ceil_div(plane.n, images) * row_blocks * column_blocks;
}

TileBlock TileBlocks::block(int64_t index) const {
  TileBlock b{};
  b.column = index % column_blocks * columns;
  b.row = index / column_blocks % row_blocks * rows;
  b.image = index / column_blocks / row_blocks * images;
  b.images = std::min(images, plane.n - b.image);
  b.rows = std::min(rows, plane.rows - b.row);
  b.columns = std::min(columns, plane.columns - b.column);
  return b;
}

PixelRows TileBlocks::new_rows(const TileBlock& b, const ImageRead& s) const {
  const int64_t shared = s.size - s.step - s.pad_h;
  const int64_t above = b.row == 0 ? 0 : b.row * s.step + shared;
  const int64_t first = std::clamp<int64_t>(above, 0, s.h);
  const int64_t last = std::clamp<int64_t>((b.row + b.rows) * s.step + shared, first, s.h);
  return {b.image * s.h + first, (b.images - 1) * s.h + last - first};
}

PixelRows TileBlocks::own_rows(const TileBlock& b) const {
  const int64_t first = b.row * plane.m, last = std::min(plane.h, (b.row + b.rows) * plane.m);
  return {b.image * plane.h + first, (b.images - 1) * plane.h + last - first};
}

template <class S>
ImageView<S> TileBlocks::read(const TileBlock& b, int64_t image, const ImageRead& s, const S* in,
                              const Prologue<S>& prologue, S* window) const {
  if (prologue.read == nullptr) return {in + image * s.h * s.w * s.c, s.w * s.c};
  const int64_t step = s.step, more = s.size - s.step;
  const int64_t top = std::clamp<int64_t>(b.row * step - s.pad_h, 0, s.h);
  const int64_t bottom = std::clamp<int64_t>((b.row + b.rows) * step - s.pad_h + more, top, s.h);
  const int64_t left = std::clamp<int64_t>(b.column * step - s.pad_w, 0, s.w);
  const int64_t right =
      std::clamp<int64_t>((b.column + b.columns) * step - s.pad_w + more, left, s.w);
  const int64_t row = (right - left) * s.c, whole = right - left == s.w ? bottom - top : 1;
  for (int64_t y = top; y < bottom; y += whole)
    prologue(window + (y - top) * row, ((image * s.h + y) * s.w + left) * s.c, whole * row);
  return {window - top * row - left * s.c, row};
}

template ImageView<float> TileBlocks::read(const TileBlock&, int64_t, const ImageRead&,
                                           const float*, const Prologue<float>&, float*) const;
template ImageView<bfloat16> TileBlocks::read(const TileBlock&, int64_t, const ImageRead&,
                                              const bfloat16*, const Prologue<bfloat16>&,
                                              bfloat16*) const;

int64_t TileBlocks::window(const ImageRead& s) const {
  const int64_t more = s.size - s.step;
  return std::min(s.h, rows * s.step + more) * std::min(s.w, columns * s.step + more) * s.c;
}

WinogradExtent inside(int64_t y, int64_t x, int64_t size, int64_t h, int64_t w) {
  auto at = [&](int64_t value) { return static_cast<int>(std::clamp<int64_t>(value, 0, size)); };
  return {at(-y), at(h - y), at(-x), at(w - x)};
}

namespace {

// Costs are in multiplications of one channel by one filter, fitted to measurements on an AMD Zen 5
// with AVX-512. On most shapes the decision is far from even.

// Costs of a multiplication of the products, and of the sums of the filter gradient, relative to
// one of the direct convolution.
constexpr double kProduct = 1.0, kSum = 1.2;
// Costs to transform one position of a tile of a channel or filter, in either direction. Stride 2
// copies many positions along one side or both.
constexpr double kTransform = 9.7, kTransformStride2 = 3.3;
// Costs to transform and store one position of a filter of one channel; and to transform a position
// of sums into a filter's gradient.
constexpr double kFilterPosition = 12, kSumPosition = 5;
// Fewer channels or filters would leave most of a vector empty.
constexpr int64_t kMinChannels = 8;
// Winograd is used if its cost is below this fraction of the direct convolution's cost.
constexpr double kWinogradGain = 0.85;
// The direct convolution's cost if it multiplies pairs, which those of the filter gradient must be
// packed into; and the filters that take as long as the rest of the work for a pixel.
constexpr double kPairs = 0.55, kFiltersOfPixel = 2, kPairsOfSums = 0.75, kFiltersOfSums = 16;
// Filters that pairs are multiplied by at once.
constexpr int64_t kLanes = 16;
// Transformed filters are kept if transforming them is above this fraction of a convolution's cost.
constexpr double kKept = 0.1;

// Returns true if F(m x m, 3x3) can compute a convolution of this shape.
bool applies(const ConvShape& s, int m) {
  const bool plain = s.kh == 3 && s.kw == 3 && s.dilation_h == 1 && s.dilation_w == 1 &&
                     s.groups == 1 && s.stride_h == s.stride_w;
  if (s.stride_h == 2) return plain && m == 4 && s.pad_h == 1 && s.pad_w == 1;
  return plain && s.stride_h == 1 && s.pad_h <= 2 && s.pad_w <= 2;
}

}  // namespace

int winograd_tile(const ConvRequest& request) {
  const ConvPass pass = request.pass;
  const ConvShape& s = request.shape;
  if (!applies(s, 4) || s.c < kMinChannels || s.o < kMinChannels || s.pixels() == 0) return 0;
  const double pairs = static_cast<double>(s.c) * s.o;
  const bool sums = pass == ConvPass::weight_grad;
  const int64_t filters = pass == ConvPass::input_grad ? s.c : s.o;
  const auto whole = static_cast<double>(round_up(filters, kLanes)),
             of = static_cast<double>(filters);
  const double direct =
      sums ? kPairsOfSums * (1 + kFiltersOfSums / of) : kPairs * (whole + kFiltersOfPixel) / of;
  const double gain = request.dtype == DType::bf16 ? direct * kWinogradGain : kWinogradGain;
  double least = gain * static_cast<double>(s.n * s.column_taps() * s.row_taps()) * pairs;
  int best = 0;
  const double transform = s.stride_h == 2 ? kTransformStride2 : kTransform;
  const double tile = (sums ? kSum : kProduct) * pairs + transform * static_cast<double>(s.c + s.o);
  const double once = (sums ? kSumPosition : kFilterPosition) * pairs;
  for (const int m : {4, 2}) {
    if (!applies(s, m)) continue;
    const WinogradTransforms& transforms = winograd_transforms(s, m);
    const auto tiles = static_cast<double>(tile_plane(s, transforms, pass).tiles());
    const double cost = tiles * transforms.positions * tile + transforms.filter_positions * once;
    if (cost < least) least = cost, best = m;
  }
  return best;
}

bool winograd_packs_filters(const ConvShape& s, int m) {
  const WinogradTransforms& transforms = winograd_transforms(s, m);
  const auto tiles = static_cast<double>(tile_plane(s, transforms, ConvPass::forward).tiles());
  const double once = kFilterPosition * transforms.filter_positions;
  return once > kKept * (once + kProduct * tiles * transforms.positions);
}

}  // namespace tessera
