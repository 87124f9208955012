// image_normalize: y [..., c] = (x [..., c] / 255 - mean[c]) / stddev[c], x uint8 (an NHWC batch of
// images), y floating point. No gradient. Throws ShapeError if x is not uint8, mean and stddev
// do not have one value for each channel, or a stddev is not positive.
#pragma once

#include <vector>

#include "tessera/engine/tensor.h"

namespace tessera {

struct ImageNormalizeParams {
  std::vector<double> mean;    // for each channel of x / 255
  std::vector<double> stddev;  // for each channel, > 0
  DType dtype = DType::f32;    // dtype of y
  bool operator==(const ImageNormalizeParams&) const = default;
};

Tensor image_normalize(const Tensor& x, const ImageNormalizeParams& params);

// flip_left_right: flips images horizontally: y[n, h, i, c] = x[n, h, w - 1 - i, c]. Throws
// ShapeError unless x is uint8 [n, h, w, c].
Tensor flip_left_right(const Tensor& images);

}  // namespace tessera
