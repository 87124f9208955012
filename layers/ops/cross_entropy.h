// cross_entropy: softmax cross-entropy from logits, the mean over the batch; the loss has shape [].
//
//   logits [n, c],  p[i] = softmax(logits[i])
//   labels int32 [n]:   loss = 1/n sum_i sum_j t[i,j] (-log p[i,j]),  t[i,j] = (j == labels[i])
//   targets [n, c]:     the same with t = targets, whatever their rows add up to
//
// Label smoothing s replaces t by (1 - s) t + s / c. float32 or float64; sums are kept in float64.
// Only the logits and the labels are kept for the gradient, which reads p off the logits again;
// its block may be that of the logits.
//
// Throws ShapeError when the shapes do not fit or s is not in [0, 1). A label outside [0, c): eager
// on the CPU it is an Error that names the sample; where values cannot be looked at (in a captured
// step) the loss is NaN. Data sets check their labels when they are opened.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

struct CrossEntropyParams {
  double label_smoothing = 0;
  bool operator==(const CrossEntropyParams&) const = default;
};

// The second argument is the labels or the targets, told apart by their dtype.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyParams params = {});

}  // namespace tessera
