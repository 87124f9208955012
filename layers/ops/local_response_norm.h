// local_response_norm (Krizhevsky et al. 2012): every value divided by a power of the squares
// around it, across channels.
//
//   x [.., c]   y like x
//   y[.., i] = x[.., i] / (k + alpha / size  sum of x[.., j]^2)^beta
//
// over j from i - size / 2 to i + (size - 1) / 2 (both rounded down), as far as there are channels.
// Made of other ops. float32 or float64. Throws ShapeError: x a scalar, or size < 1.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

struct LocalResponseNormParams {
  int64_t size = 5;  // channels
  double alpha = 1e-4, beta = 0.75, k = 1;
};

Tensor local_response_norm(const Tensor& x, const LocalResponseNormParams& params = {});

}  // namespace tessera
