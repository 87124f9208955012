// Gradient clipping, as PyTorch defines it. Numbers that are not finite stay so, which keeps the
// update from being made.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

// Each number into [-most, most].
Tensors clip_by_value(Tensors gradients, double max_value);
// All gradients together to a norm of at most `max_norm`: each times min(1, max_norm / (norm +
// 1e-6)), norm the root of the sum of all squares. All of one dtype. No update can be made before
// all gradients are there, which may cost memory.
Tensors clip_by_norm(Tensors gradients, double max_norm);

}  // namespace tessera
