// LAMB (You et al. 2019, "Large Batch Optimization for Deep Learning"), as in timm: Adam's step,
// scaled to the norm of the parameter. For gradient g, parameter p, its moments m and v (initially
// zero) and t = 1, 2, ...:
//
//   m <- m + (1 - beta1) (g - m)          v <- beta2 v + (1 - beta2) g^2
//   u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay p
//   p <- p - lr |p| / |u| u                    (the ratio is 1 if a norm is 0)
//
// A parameter without decay takes the step u unscaled.
#pragma once

#include "tessera/layers/optimizers/optimizer.h"

namespace tessera {

struct LambParams {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  bool decay_vectors = true;  // false: no decay of 1-D parameters (biases, norm scales)
  double vector_lr = 1;       // factor of the learning rate of 1-D parameters
};

// Declares the states "optimizer.m.<parameter>", "optimizer.v.<parameter>" and "optimizer.step".
class Lamb final : public Optimizer {
 public:
  // Throws ConfigError for an invalid setting.
  Lamb(Store& store, Tensors parameters, const LambParams& params);

 private:
  void update(std::span<const Tensor> gradients, const Tensor& lr) override;
  const LambParams params_;
  Tensors m_, v_;
  Tensor step_;
};

}  // namespace tessera
