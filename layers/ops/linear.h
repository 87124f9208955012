// linear: y [n, out] = x [n, in] w^T + b, with w [out, in] and b [out]. y has the dtype of
// x, to which w is cast if it has 16 bits. Composed of matmul and bias. Throws ShapeError if the
// sizes do not fit.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

// If b is undefined, no bias is added.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b = {});

}  // namespace tessera
