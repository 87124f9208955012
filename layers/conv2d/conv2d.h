// conv2d: convolution of images with filters, and its two gradients as separate ops.
//
//   x [n, h, w, c]   filters [o, kh, kw, c/groups]   y [n, out_h, out_w, o]
//   out_h = (h + 2 padding.h - dilation.h (kh - 1) - 1) / stride.h + 1     (rounded down; so out_w)
//   y[b,i,j,q] = sum over u, v, k of x[b, i stride.h - padding.h + u dilation.h,
//                                      j stride.w - padding.w + v dilation.w, k] filters[q,u,v,k]
//
// k runs over the channels of q's group: groups = c gives a depthwise convolution. x is zero
// outside the image. y has the dtype of x; filters are cast to it if it has 16 bits, and the sums
// are float32. There is no bias: bias() follows, and a compiled step fuses it into the convolution.
// Differentiable any number of times.
//
// Throws ShapeError if x or the filters are not of rank 4, channels do not match, groups do not
// divide c and o, a filter is larger than the padded image, or a parameter is out of range.
#pragma once

#include "tessera/engine/op.h"
#include "tessera/layers/shared/size2.h"

namespace tessera {

struct Conv2dParams {
  Size2 stride = 1;    // pixels from one window to the next, >= 1
  Size2 padding = 0;   // zero rows above and below, zero columns left and right, >= 0
  Size2 dilation = 1;  // pixels from one tap of the filter to the next, >= 1
  int64_t groups = 1;  // >= 1
  bool operator==(const Conv2dParams&) const = default;
};

Tensor conv2d(const Tensor& x, const Tensor& filters, const Conv2dParams& params = {});

// Returns dx [n, h, w, c], the gradient of sum(y * dy) with respect to x; `image` is {h, w}.
Tensor conv2d_input_grad(const Tensor& dy, const Tensor& filters, Size2 image,
                         const Conv2dParams& params = {});
// Returns [o, kh, kw, c/groups], the gradient of sum(y * dy) with respect to the filters, in
// float32 if x has 16 bits; `kernel` is {kh, kw}.
Tensor conv2d_weight_grad(const Tensor& x, const Tensor& dy, Size2 kernel,
                          const Conv2dParams& params = {});

}  // namespace tessera
