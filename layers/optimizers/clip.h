// Gradient clipping, as in PyTorch. Non-finite elements stay non-finite, so that the update is
// skipped.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

// Clamps each element to [-max_value, max_value].
Tensors clip_by_value(Tensors gradients, double max_value);
// Clips the global norm (PyTorch clip_grad_norm_): multiplies every gradient by
// min(1, max_norm / (norm + 1e-6)), where norm is the square root of the sum of all squares.
// All gradients have one dtype. The updates wait for all gradients, which may raise the peak
// memory.
Tensors clip_by_norm(Tensors gradients, double max_norm);

}  // namespace tessera
