// The loss that a configuration names.
#pragma once

#include "tessera/engine/tensor.h"
#include "tessera/models/config/config.h"

namespace tessera {

// Of logits [n, c]; shape []. `targets` [n, c]: where images are mixed, else undefined, and
// `labels` int32 [n] count. With t the targets or 1 at the label, s = loss.label_smoothing,
// t' = (1 - s) t + s / c:
//
//   cross_entropy   mean over images of sum_j w_j t'_j (-log softmax_j); of labels the mean is
//                   weighted, divided by the sum of w of the labels, as PyTorch's, but 0 where
//                   that sum is 0
//   bce             mean of the binary cross-entropies of sigmoid(logits) against t', which with
//                   loss.target_threshold become 1 above it, else 0, as timm's
//   mse             mean of (logits - t')^2
//
// w are loss.class_weights, 1 where there are none. `scale`: if the images are a part of a batch,
// class_weight_scale() of the batch; else undefined. The losses of the parts, each times its share
// of the images, then add up to the loss of the batch.
Tensor training_loss(const LossConfig& config, const Tensor& logits, const Tensor& labels,
                     const Tensor& targets, const Tensor& scale = {});

// Returns the factor that makes a mean over n images one weighted by loss.class_weights, of labels
// int32 [n]: n / (sum of w of the labels), 0 if that sum is 0; float32, shape []. Undefined if
// there are no weights.
Tensor class_weight_scale(const LossConfig& config, const Tensor& labels);

}  // namespace tessera
