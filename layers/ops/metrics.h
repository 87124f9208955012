// Metrics that a step can compute next to the loss. No gradient flows through them.
#pragma once

#include "tessera/engine/tensor.h"

namespace tessera {

// Returns the number of rows of logits [n, c] whose label (labels int32 [n]) is among the k
// largest; float32, shape []. If logits are equal, the lower class counts as larger. A NaN is
// larger than everything; a label out of range is never found. Throws ShapeError: shapes, or k < 1.
Tensor top_k_correct(const Tensor& logits, const Tensor& labels, int64_t k = 1);

}  // namespace tessera
