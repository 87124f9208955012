// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms"). For gradient g, its
// mean m (initially zero) and parameter p:
//
//   p <- p (1 - lr weight_decay) - lr sign(m + (1 - beta1) (g - m))
//   m <- m + (1 - beta2) (g - m)
#pragma once

#include "tessera/layers/optimizers/optimizer.h"

namespace tessera {

struct LionParams {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  bool decay_vectors = true;  // false: no decay of 1-D parameters (biases, norm scales)
  double vector_lr = 1;       // factor of the learning rate of 1-D parameters
};

// Declares a state "optimizer.m.<parameter>" for each parameter.
class Lion final : public Optimizer {
 public:
  // Throws ConfigError for an invalid setting.
  Lion(Store& store, Tensors parameters, const LionParams& params);

 private:
  void update(std::span<const Tensor> gradients, const Tensor& lr) override;
  const LionParams params_;
  Tensors m_;
};

}  // namespace tessera
