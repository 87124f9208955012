// image_normalize: y [..., c] = (x [..., c] / 255 - mean[c]) / stddev[c], x uint8 (an NHWC batch
// of images), y float32 or float64. No gradient. Throws ShapeError when x is not uint8, mean and
// stddev do not have one value for each channel, or a stddev is not positive.
#pragma once

#include <vector>

#include "tessera/engine/tensor.h"

namespace tessera {

struct ImageNormalizeParams {
  std::vector<double> mean;    // of the channels of x / 255
  std::vector<double> stddev;  // > 0
  DType dtype = DType::f32;    // of y
  bool operator==(const ImageNormalizeParams&) const = default;
};

Tensor image_normalize(const Tensor& x, const ImageNormalizeParams& params);

}  // namespace tessera
