// linear: y [n, out] = x [n, in] w^T + b, with w [out, in] and b [out]; float32 or float64. Made of
// matmul and bias. Throws ShapeError when the sizes do not fit.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

// An undefined b is left out.
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b = {});

}  // namespace tessera
