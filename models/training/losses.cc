#include "tessera/models/training/losses.h"

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/layers/ops/cross_entropy.h"
#include "tessera/layers/ops/loss.h"

namespace tessera {
namespace {

// t', and 1 or 0 where there is a threshold.
Tensor smoothed(const LossConfig& config, const Tensor& targets) {
  const double s = config.label_smoothing;
  if (s == 0 && !config.target_threshold) return targets;
  ScalarBuilder b(1);
  const int rest = b.value(s / static_cast<double>(targets.shape().back()));
  int t = b.add(b.mul(b.value(1 - s), b.in(0)), rest);
  if (config.target_threshold) t = b.push(ScalarOp::greater, t, b.value(*config.target_threshold));
  return pointwise("smooth", b.build(t), {targets});
}

Tensor class_weights(const LossConfig& config, DType dtype) {
  const std::vector<double>& numbers = config.class_weights;
  return constant(cast(from_vector({static_cast<int64_t>(numbers.size())}, numbers), dtype));
}

// Rows / sum(t w), 0 if that sum is 0.
Tensor scale_of(const Tensor& t, const Tensor& w) {
  ScalarBuilder b(1);
  const int quotient = b.div(b.value(static_cast<double>(t.shape()[0])), b.in(0));
  const int positive = b.push(ScalarOp::greater, b.in(0), b.value(0));
  return pointwise("weight_scale",
                   b.build(b.push(ScalarOp::select, positive, quotient, b.value(0))), {sum(t * w)});
}

Tensor weighted(const LossConfig& config, const Tensor& logits, const Tensor& labels,
                const Tensor& targets, const Tensor& scale) {
  const Tensor w = class_weights(config, logits.dtype());
  const Tensor t = targets ? targets : one_hot(labels, logits.shape().back(), logits.dtype());
  Tensor each = smoothed(config, t) * w;
  if (!targets) each = each * (scale ? scale : scale_of(t, w));
  return cross_entropy(logits, detach(each));
}

}  // namespace

Tensor class_weight_scale(const LossConfig& config, const Tensor& labels) {
  if (config.class_weights.empty()) return {};
  const Tensor w = class_weights(config, DType::f32);
  return scale_of(one_hot(labels, w.elements(), DType::f32), w);
}

Tensor training_loss(const LossConfig& config, const Tensor& logits, const Tensor& labels,
                     const Tensor& targets, const Tensor& scale) {
  if (config.name == LossKind::kCrossEntropy) {
    if (!config.class_weights.empty()) return weighted(config, logits, labels, targets, scale);
    return cross_entropy(logits, targets ? targets : labels, {config.label_smoothing});
  }
  const Tensor t = targets ? targets : one_hot(labels, logits.shape().back(), logits.dtype());
  const Tensor wanted = smoothed(config, t);
  return config.name == LossKind::kBce ? bce_with_logits(logits, wanted) : mse(logits, wanted);
}

}  // namespace tessera
