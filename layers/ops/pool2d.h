// Pooling over the windows of images: maximum and average, also to a given size, and the average
// over whole images.
//
//   x [n, h, w, c]   y [n, out_h, out_w, c]
//   out_h = (h + 2 padding.h - kernel.h) / stride.h + 1     (rounded down; out_w likewise)
//
// If pixels are left over, ceil_mode adds one more window per axis. It is cut off at the end, and
// left out if it would contain only padding.
//
// Any floating-point dtype. Throws ShapeError: x not of rank 4 or without pixels, settings out of
// range, padding not smaller than the kernel (a window would lie outside the image), a kernel
// larger than the padded image, and for the maximum a kernel of more than 256 pixels.
#pragma once

#include <optional>

#include "tessera/engine/op.h"
#include "tessera/layers/shared/size2.h"

namespace tessera {

struct Pool2dParams {
  Size2 kernel = 2;  // pixels of a window, >= 1
  std::optional<Size2> stride =
      {};                         // pixels from one window to the next, >= 1; default: the kernel
  Size2 padding = 0;              // rows above and below, columns left and right, >= 0
  bool count_include_pad = true;  // average: divide by all pixels of the kernel, padding included,
                                  // instead of those inside the image
  bool ceil_mode = false;         // out_h and out_w, as in PyTorch
  bool operator==(const Pool2dParams&) const = default;
};

// Returns the largest value of each window; padding is never the largest, NaN always is. The
// gradient keeps one byte for each output (the position of the first maximum in its window), not x.
Tensor max_pool2d(const Tensor& x, const Pool2dParams& params);
// Returns the mean of each window; padding counts as zeros.
Tensor average_pool2d(const Tensor& x, const Pool2dParams& params);
// Returns the mean over the pixels of each image: [n, h, w, c] -> [n, c].
Tensor global_average_pool(const Tensor& x);

// Pool to a given output size: window i along an axis of h pixels covers pixels floor(i h / out) to
// ceil((i + 1) h / out), so windows may overlap and differ by a pixel. If out divides the image
// size, this is the pooling above; else it is composed of slices. y [n, out.h, out.w, c]. Throw
// ShapeError also for an out smaller than 1.
Tensor adaptive_max_pool2d(const Tensor& x, Size2 out);
Tensor adaptive_average_pool2d(const Tensor& x, Size2 out);

}  // namespace tessera
