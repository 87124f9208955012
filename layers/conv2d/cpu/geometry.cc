#include "tessera/layers/conv2d/cpu/geometry.h"

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

ConvShape in_one_column(ConvShape s) {
  if (s.pointwise()) s.h *= s.n * s.w, s.n = s.w = 1;
  return s;
}

}  // namespace

GatherGeometry::GatherGeometry(const ConvShape& given, bool backward, bool copies)
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
  base_h = direct ? 0 : rows.base, base_w = direct ? 0 : columns.base;
  block_w =
      direct ? in_w
             : std::max<int64_t>(0, (columns.count - 1) * in_step_w + columns.reach - columns.base);
}

AxisExtent GatherGeometry::extent(bool vertical) const {
  AxisExtent e;
  bool any = false;
  const int64_t count = !backward ? 1 : vertical ? out_step_h : out_step_w;
  const int64_t step = vertical ? in_step_h : in_step_w, size = vertical ? in_h : in_w;
  for (int64_t p = 0; p < count; ++p) {
    const GatherAxis a = axis(vertical, vertical ? p * out_step_w : p);
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

GatherAxis GatherGeometry::axis(bool vertical, int64_t phase) const {
  const ConvShape& s = shape;
  const int64_t taps = vertical ? s.kh : s.kw, stride = vertical ? s.stride_h : s.stride_w;
  const int64_t pad = vertical ? s.pad_h : s.pad_w;
  const int64_t dilation = vertical ? s.dilation_h : s.dilation_w;
  GatherAxis a;
  if (!backward) {
    a.count = vertical ? out_h : out_w;
    a.base = -pad, a.spacing = dilation, a.taps = taps;
    return a;
  }
  // Output i = first + q * stride gathers y = (i + pad - u * dilation) / stride where that divides:
  // for every (stride / gcd)-th tap u from the first that does. Taken from the last tap to the
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

int64_t GatherGeometry::block_rows(int64_t count) const {
  return direct ? in_h : std::max<int64_t>(0, (count - 1) * in_step_h + rows.reach - rows.base);
}

int64_t GatherGeometry::depth(int64_t phase) const {
  const int64_t taps = axis(true, phase).taps * axis(false, phase).taps;
  return shape.depthwise() ? taps : taps * (in_c / shape.groups);
}

}  // namespace tessera
