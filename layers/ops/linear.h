// bias: y [.., c] = x [.., c] + b [c]. Pointwise; y has the dtype of x. Throws ShapeError if b is
// not a vector as long as the last axis of x.
//
// linear: y [n, out] = x [n, in] w^T + b, with w [out, in] and b [out]. y has the dtype of
// x, to which w is cast if it has 16 bits. Composed of matmul and bias. Throws ShapeError if the
// sizes do not fit.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor bias(const Tensor& x, const Tensor& b);
// If b is undefined, no bias is added.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b = {});

}  // namespace tessera
