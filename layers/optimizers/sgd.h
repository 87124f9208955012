// Stochastic gradient descent, as in PyTorch (dampening 0). For gradient g, parameter p and its
// momentum buffer b (initially zero):
//
//   g' = g + weight_decay p
//   b <- momentum b + g'
//   p <- p - lr (nesterov ? g' + momentum b : b)        without momentum: p <- p - lr g'
#pragma once

#include "tessera/layers/optimizers/optimizer.h"

namespace tessera {

// Declares a state "optimizer.momentum.<parameter>" for each parameter if momentum is used.
class Sgd final : public Optimizer {
 public:
  // Throws ConfigError for an invalid setting.
  Sgd(Store& store, Tensors parameters, const SgdParams& params);

 private:
  void update(std::span<const Tensor> gradients, const Tensor& lr) override;
  const SgdParams params_;
  Tensors momentum_;
};

}  // namespace tessera
