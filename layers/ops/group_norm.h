// group_norm (Wu and He 2018): normalizes each group of channels of every sample to mean 0 and
// variance 1 over its channels and all pixels, then scales and shifts each channel.
//
//   x [n, .., c]   gamma, beta [c]   y like x
//   y = (x - mean) / sqrt(variance + eps) gamma + beta
//
// Group g has the channels [g c / groups, (g + 1) c / groups). x and the statistics are kept for
// the gradient. Any floating-point dtype. Throws ShapeError: x of rank 0 or 1, groups that do not
// divide c, vectors that are not [c], eps not larger than 0.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

struct GroupNormParams {
  int64_t groups = 32;  // >= 1; c groups are instance norm
  double eps = 1e-5;    // added to the variance, > 0
  bool operator==(const GroupNormParams&) const = default;
};

Tensor group_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                  const GroupNormParams& params);

}  // namespace tessera
