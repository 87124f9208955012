// cross_entropy: softmax cross-entropy from logits, averaged over the batch; the loss has shape [].
//
//   logits [n, c],  p[i] = softmax(logits[i])
//   labels int32 [n]:   loss = 1/n sum_i sum_j t[i,j] (-log p[i,j]),  t[i,j] = (j == labels[i])
//   targets [n, c]:     this loss with t = targets, whose rows may have any sum
//
// Label smoothing s replaces t by (1 - s) t + s / c. The loss is float32, or float64 if the logits
// are; sums are accumulated in float64. Only the logits and the labels are kept for the gradient,
// which recomputes p from the logits and may be computed in place of them.
//
// Throws ShapeError if the shapes do not fit or s is not in [0, 1). If a label is outside [0, c),
// eager mode on the CPU throws an Error that names the sample; on a GPU or in a captured step,
// where values are not read, the loss is NaN. Data sets check their labels when they are opened.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

struct CrossEntropyParams {
  double label_smoothing = 0;
  bool operator==(const CrossEntropyParams&) const = default;
};

// The second argument is labels or targets, distinguished by their dtype.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyParams params = {});

}  // namespace tessera
