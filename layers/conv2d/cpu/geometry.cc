#include "tessera/layers/conv2d/cpu/geometry.h"

#include <algorithm>
#include <numeric>

#include "tessera/runtime/integers.h"

namespace tessera {

namespace {

// Input and output of a task: half of the smallest known L2 (512 KB); the filters use the rest.
constexpr int64_t kBlockBytes = 256 << 10;
// Filters larger than this do not stay in L2 next to a block, so each task reads them from a slower
// cache and therefore has at least kLongPixels pixels.
constexpr int64_t kFilterBytes = 128 << 10;
constexpr int64_t kLongPixels = 96;
// Fewer pixels are one task, of which threads compute channels: each reads a part of the filters
// and all of the input. In float32 14x14 pixels are more: Winograd's convolutions, which come
// between, would read what another core wrote, and took 1.1 times as long.
constexpr int64_t kFewPixels = 192, kFewHalfPixels = 256;
// Images of a task of few taps, so that the pixels with the same taps fill register tiles; and the
// maximum input that is copied for all such tasks.
constexpr int64_t kImages = 32, kCopiedBytes = 4 << 20;
// Four register tiles of 6 rows or three of 8: with fewer pixels the last, partly empty tile is
// costly.
constexpr int64_t kMinPixels = 24;
// Products that one core computes in about 5 microseconds (50 billion a second), the time to wake a
// thread.
constexpr int64_t kTaskWork = 1 << 18;
// Target number of tasks, enough for 16 threads.
constexpr int64_t kMinTasks = 16;

ConvShape in_one_column(ConvShape s) {
  if (s.pointwise()) s.h *= s.n * s.w, s.n = s.w = 1;
  return s;
}

}  // namespace

ConvGeometry::ConvGeometry(const ConvShape& given, bool backward, bool copies)
    : shape(in_one_column(given)), backward(backward) {
  const ConvShape& s = shape;
  n = s.n, in_h = s.h, in_w = s.w, in_c = s.c;
  out_h = s.out_h(), out_w = s.out_w(), out_c = s.o;
  in_step_h = s.stride_h, in_step_w = s.stride_w;
  out_step_h = out_step_w = phases = 1;
  if (backward) {
    std::swap(in_h, out_h), std::swap(in_w, out_w), std::swap(in_c, out_c);
    std::swap(in_step_h, out_step_h), std::swap(in_step_w, out_step_w);
    phases = s.stride_h * s.stride_w;
  }
  const int64_t spacing =
      backward ? s.dilation_w / std::gcd(s.dilation_w, s.stride_w) : s.dilation_w;
  joins_taps = spacing == 1 && s.groups == 1;
  rows = extent(true), columns = extent(false);
  direct = rows.inside && columns.inside && !copies;
  few_taps = !direct && !s.depthwise() && 5 * s.row_taps() <= 4 * s.out_w() * s.kw;
  base_h = direct ? 0 : rows.base, base_w = direct ? 0 : columns.base;
  block_w =
      direct ? in_w
             : std::max<int64_t>(0, (columns.count - 1) * in_step_w + columns.reach - columns.base);
}

AxisExtent ConvGeometry::extent(bool vertical) const {
  AxisExtent e;
  bool any = false;
  const int64_t count = !backward ? 1 : vertical ? out_step_h : out_step_w;
  const int64_t step = vertical ? in_step_h : in_step_w, size = vertical ? in_h : in_w;
  for (int64_t p = 0; p < count; ++p) {
    const ConvAxis a = axis(vertical, vertical ? p * out_step_w : p);
    e.count = std::max(e.count, a.count);
    if (a.taps == 0 || a.count == 0) continue;
    const int64_t reach = a.base + (a.taps - 1) * a.spacing + 1;
    e.base = any ? std::min(e.base, a.base) : a.base;
    e.reach = any ? std::max(e.reach, reach) : reach;
    any = true;
    if (a.base < 0 || (a.count - 1) * step + reach > size) e.inside = false;
  }
  return e;
}

ConvAxis ConvGeometry::axis(bool vertical, int64_t phase) const {
  const ConvShape& s = shape;
  const int64_t taps = vertical ? s.kh : s.kw, stride = vertical ? s.stride_h : s.stride_w;
  const int64_t pad = vertical ? s.pad_h : s.pad_w;
  const int64_t dilation = vertical ? s.dilation_h : s.dilation_w;
  ConvAxis a;
  if (!backward) {
    a.count = vertical ? out_h : out_w;
    a.base = -pad, a.spacing = dilation, a.taps = taps;
    return a;
  }
  // Output i = first + q * stride gathers y = (i + pad - u * dilation) / stride if the division is
  // exact: for every (stride / gcd)-th tap u from the first such tap on. From the last tap to the
  // first, y grows by dilation / gcd.
  a.first = vertical ? phase / s.stride_w : phase % s.stride_w;
  const int64_t size = vertical ? s.h : s.w;
  a.count = a.first < size ? (size - 1 - a.first) / stride + 1 : 0;
  const int64_t gcd = std::gcd(dilation, stride), step = stride / gcd;
  a.spacing = dilation / gcd;
  for (int64_t u = 0; u < std::min(taps, step); ++u) {
    if ((a.first + pad - u * dilation) % stride != 0) continue;
    a.taps = (taps - 1 - u) / step + 1;
    a.first_tap = u + (a.taps - 1) * step;
    a.tap_step = -step;
    a.base = (a.first + pad - a.first_tap * dilation) / stride;
  }
  return a;
}

int64_t ConvGeometry::block_rows(int64_t count) const {
  return direct ? in_h : std::max<int64_t>(0, (count - 1) * in_step_h + rows.reach - rows.base);
}

int64_t ConvGeometry::depth(int64_t phase) const {
  const int64_t taps = this->phase(phase).taps();
  return shape.depthwise() ? taps : taps * (in_c / shape.groups);
}

ImplicitGemmTiling::ImplicitGemmTiling(const ConvGeometry& g, DType dtype) {
  const int64_t size = bytes_of(dtype);
  count = g.rows.count;
  const int64_t in_row = g.block_w * g.in_c * size;
  const int64_t out_row = g.out_step_h * g.out_w * g.out_c * bytes_of(compute_type(dtype));
  const int64_t halo = std::max<int64_t>(0, g.rows.reach - g.rows.base - g.in_step_h) * in_row;
  const int64_t pixels_per_row = std::max<int64_t>(1, g.out_step_h * g.out_w);

  // Takes as many phase rows as fit the cache, but enough pixels to use the filters and enough
  // tasks.
  int64_t wanted = (kBlockBytes - halo) / std::max<int64_t>(1, g.in_step_h * in_row + out_row);
  const int64_t filters = g.shape.kh * g.shape.kw * g.in_c / g.shape.groups * g.out_c;
  filters_stay = filters * size <= kFilterBytes;
  if (!filters_stay) wanted = std::max(wanted, ceil_div(kLongPixels, pixels_per_row));
  const int64_t work = filters * g.shape.pixels();
  const int64_t few = is_half(dtype) ? kFewHalfPixels : kFewPixels;
  const int64_t copied = g.direct ? 0 : g.n * g.block_rows(count) * in_row;
  const bool single = g.n * count * pixels_per_row < few && copied <= 2 * kBlockBytes;
  by_channels = !filters_stay && g.shape.groups == 1 && work >= 2 * kTaskWork &&
                (single || (g.few_taps && g.n >= 2 * kImages && copied <= kCopiedBytes));
  wanted = std::min(wanted, g.n * count / std::clamp<int64_t>(work / kTaskWork, 1, kMinTasks));
  wanted = std::max(wanted, ceil_div(kMinPixels, pixels_per_row));

  // Makes tasks of nearly equal size: whole images or pixels in a multiple of four tasks, if there
  // are enough, or rows of one image.
  if (by_channels) {
    images = single ? g.n : ceil_div(g.n, g.n / kImages);
    rows = unit = count, blocks_per_image = 1;
  } else if (wanted >= count) {
    const int64_t whole = std::max<int64_t>(1, wanted / std::max<int64_t>(1, count));
    const int64_t parts = ceil_div(ceil_div(g.n, whole), 4) * 4;
    images = ceil_div(std::max<int64_t>(1, g.n), std::max<int64_t>(1, parts));
    rows = count, unit = std::max<int64_t>(1, count);
    blocks_per_image = 1;
  } else if (pixels_per_row == 1 && count >= 2 * kMinPixels) {
    images = 1, unit = kMinPixels;
    const int64_t parts = std::min(round_up(ceil_div(count, wanted), 4), count / kMinPixels);
    blocks_per_image = parts >= 4 ? parts / 4 * 4 : 2;
    rows = ceil_div(ceil_div(count, unit), blocks_per_image) * unit;
  } else {
    images = 1;
    rows = unit = ceil_div(count, ceil_div(count, wanted));
    blocks_per_image = ceil_div(count, rows);
    if (blocks_per_image % 2 == 1 && g.n * blocks_per_image < kMinTasks) {  // for an even share
      ++blocks_per_image, unit = 1;
      rows = ceil_div(count, blocks_per_image);
    }
  }
  tasks = ceil_div(g.n, images) * blocks_per_image;
  block_h = g.block_rows(rows);
}

}  // namespace tessera
