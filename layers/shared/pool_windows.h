// PoolShape: the pixels under each window of a pooling, for the kernels of every device.
#pragma once

#include <cstdint>

#include "tessera/runtime/device.h"

namespace tessera {

template <class I>
struct PoolRangeOf {
  I begin, end;
};

// I: the integer type; 32 bits are faster if the sizes allow it.
template <class I>
struct PoolShapeOf {
  using Range = PoolRangeOf<I>;
  I n = 1, h = 1, w = 1, c = 1;  // sizes of x
  I kernel_h = 1, kernel_w = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0;
  bool count_include_pad = true;
  bool ceil_mode = false;
  TESSERA_HOST_DEVICE I out_h() const { return windows(h, pad_h, kernel_h, stride_h); }
  TESSERA_HOST_DEVICE I out_w() const { return windows(w, pad_w, kernel_w, stride_w); }

  // Return the rows of x under row i of windows, the columns under column j.
  TESSERA_HOST_DEVICE Range rows_under(I i) const {
    return inside(i * stride_h - pad_h, kernel_h, h);
  }
  TESSERA_HOST_DEVICE Range columns_under(I j) const {
    return inside(j * stride_w - pad_w, kernel_w, w);
  }

  // Return the rows of windows that contain row i of x, the columns that contain column j.
  TESSERA_HOST_DEVICE Range rows_over(I i) const {
    return over(i + pad_h, kernel_h, stride_h, out_h());
  }
  TESSERA_HOST_DEVICE Range columns_over(I j) const {
    return over(j + pad_w, kernel_w, stride_w, out_w());
  }

  // Returns the divisor of the mean over window (i, j), which covers rows u and columns v of x.
  TESSERA_HOST_DEVICE I divisor(Range u, Range v, I i, I j) const {
    if (!count_include_pad) return (u.end - u.begin) * (v.end - v.begin);
    // The part of a window beyond the padding, as ceil_mode allows, does not count.
    return counted(i * stride_h, kernel_h, h + 2 * pad_h) *
           counted(j * stride_w, kernel_w, w + 2 * pad_w);
  }

 private:
  TESSERA_HOST_DEVICE I windows(I size, I pad, I kernel, I stride) const {
    const I span = size + 2 * pad - kernel, down = span / stride + 1;
    return ceil_mode && span % stride != 0 && down * stride < size + pad ? down + 1 : down;
  }
  TESSERA_HOST_DEVICE static Range inside(I start, I kernel, I size) {
    const I end = start + kernel;
    return {start < 0 ? 0 : start, end < size ? end : size};
  }
  TESSERA_HOST_DEVICE static Range over(I at, I kernel, I stride, I count) {
    const I early = at - kernel;  // the last start that is too early
    const I end = at / stride + 1;
    return {early < 0 ? 0 : early / stride + 1, end < count ? end : count};
  }
  TESSERA_HOST_DEVICE static I counted(I start, I kernel, I padded) {
    return start + kernel < padded ? kernel : padded - start;
  }
};
using PoolShape = PoolShapeOf<int64_t>;
using PoolRange = PoolRangeOf<int64_t>;

}  // namespace tessera
