// LARS (You, Gitman and Ginsburg 2017, "Large Batch Training of Convolutional Networks"), as in
// timm: SGD with momentum, with gradients scaled to the norms of their parameters. For gradient g,
// parameter p and its momentum buffer b (initially zero):
//
//   r = trust_coefficient |p| / (|g| + weight_decay |p| + epsilon)     (1 if a norm is 0)
//   g' = r (g + weight_decay p)
//   b <- momentum b + g'
//   p <- p - lr (nesterov ? g' + momentum b : b)
//
// A parameter without decay has g' = g.
#pragma once

#include "tessera/layers/optimizers/optimizer.h"

namespace tessera {

struct LarsParams {
  double momentum = 0.9;
  bool nesterov = false;
  double trust_coefficient = 0.001;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decay_vectors = true;  // false: no decay of 1-D parameters (biases, norm scales)
  double vector_lr = 1;       // factor of the learning rate of 1-D parameters
};

// Declares a state "optimizer.momentum.<parameter>" for each parameter.
class Lars final : public Optimizer {
 public:
  // Throws ConfigError for an invalid setting.
  Lars(Store& store, Tensors parameters, const LarsParams& params);

 private:
  void update(std::span<const Tensor> gradients, const Tensor& lr) override;
  const LarsParams params_;
  Tensors momentum_;
};

}  // namespace tessera
