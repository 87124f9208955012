// Metrics that a step can compute beside the loss. No gradient flows through them.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

// How many rows of logits [n, c] have their label (labels int32 [n]) among the k largest; float32,
// shape []. Of equal logits the one of the lower class counts as larger, a NaN is larger than
// everything, and a label out of range is never found. Throws ShapeError: shapes, or k < 1.
Tensor top_k_correct(const Tensor& logits, const Tensor& labels, int64_t k = 1);

}  // namespace tessera
