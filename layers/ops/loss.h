// Losses, averaged over the batch or over all elements; a loss has shape [] and is float32, or
// float64 if its arguments are.
#pragma once

#include "tessera/engine/op.h"

namespace tessera {

// cross_entropy: softmax cross-entropy from logits, averaged over the batch.
//
//   logits [n, c],  p[i] = softmax(logits[i])
//   labels int32 [n]:   loss = 1/n sum_i sum_j t[i,j] (-log p[i,j]),  t[i,j] = (j == labels[i])
//   targets [n, c]:     this loss with t = targets, whose rows may have any sum
//
// Label smoothing s replaces t by (1 - s) t + s / c. Sums are accumulated in float64. Only the
// logits and the labels are kept for the gradient, which recomputes p from the logits and may be
// computed in place of them.
//
// Throws ShapeError if the shapes do not fit or s is not in [0, 1). If a label is outside [0, c),
// eager mode on the CPU throws an Error that names the sample; on a GPU or in a captured step,
// where values are not read, the loss is NaN. Data sets check their labels when they are opened.
struct CrossEntropyParams {
  double label_smoothing = 0;
  bool operator==(const CrossEntropyParams&) const = default;
};

// The second argument is labels or targets, distinguished by their dtype.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, CrossEntropyParams params = {});

// Element-wise losses, averaged over all elements. Throw ShapeError unless both arguments have one
// shape, with at least one element.

// mean((x - target)^2)
Tensor mse(const Tensor& x, const Tensor& target);

// Binary cross-entropy of p = sigmoid(logits) against targets in [0, 1], computed so that no logit
// overflows: mean(max(z, 0) - z t + log(1 + exp(-|z|))), z = logits, t = targets.
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets);

}  // namespace tessera
