// bias: y [..., c] = x [..., c] + b [c]. Pointwise; y has the dtype of x. Throws ShapeError if b is
// not a vector as long as the last axis of x.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

Tensor bias(const Tensor& x, const Tensor& b);

}  // namespace tessera
