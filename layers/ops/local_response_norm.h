// local_response_norm (Krizhevsky et al. 2012): divides every value by a power of the sum of
// squares of the channels around it.
//
//   x [.., c]   y like x
//   y[.., i] = x[.., i] / (k + alpha / size  sum of x[.., j]^2)^beta
//
// over the existing channels j from i - size / 2 to i + (size - 1) / 2 (both rounded down).
// Composed of other ops. Any floating-point dtype. Throws ShapeError: x a scalar, or size < 1.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

struct LocalResponseNormParams {
  int64_t size = 5;  // channels
  double alpha = 1e-4, beta = 0.75, k = 1;
};

Tensor local_response_norm(const Tensor& x, const LocalResponseNormParams& params = {});

}  // namespace tessera
