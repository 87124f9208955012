// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019), as in PyTorch. For
// gradient g, parameter p, its moments m and v (initially zero) and t = 1, 2, ...:
//
//   p <- p (1 - lr weight_decay)
//   m <- m + (1 - beta1) (g - m)          v <- beta2 v + (1 - beta2) g^2
//   p <- p - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + epsilon)
//
// `coupled` selects Adam (Kingma and Ba 2015), which adds weight_decay p to g instead of decaying
// the parameter.
#pragma once

#include "tessera/layers/optimizers/optimizer.h"

namespace tessera {

// Declares the states "optimizer.m.<parameter>" and "optimizer.v.<parameter>" for each parameter,
// and one int64 "optimizer.step" that every step increments.
class AdamW final : public Optimizer {
 public:
  // Throws ConfigError for an invalid setting.
  AdamW(Store& store, Tensors parameters, const AdamWParams& params);

 private:
  void update(std::span<const Tensor> gradients, const Tensor& lr) override;
  const AdamWParams params_;
  Tensors m_, v_;
  Tensor step_;
};

}  // namespace tessera
