// RMSprop (Hinton 2012), as PyTorch defines it. With g the gradient, p the parameter, v the mean
// square (zeros at first), b the momentum buffer (zeros at first):
//
//   g' = g + weight_decay p
//   v <- alpha v + (1 - alpha) g'^2
//   b <- momentum b + g' / (sqrt(v) + epsilon)
//   p <- p - lr b                           without momentum: p <- p - lr g' / (sqrt(v) + epsilon)
//
// With eps_in_root as TensorFlow and timm's RMSpropTF have it: sqrt(v + epsilon) divides, v starts
// as ones, and the buffer is in units of the parameter: b <- momentum b + lr g' / ..., p <- p - b.
#pragma once

#include "tessera/layers/optimizers/optimizer.h"

namespace tessera {

struct RmspropParams {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;
  bool eps_in_root = false;   // as TensorFlow and timm's RMSpropTF have it
  double weight_decay = 0;    // times the parameter, added to the gradient
  bool decay_vectors = true;  // false: parameters of one axis (biases, norms) do not decay
  double vector_lr = 1;       // factor of the learning rate of parameters of one axis
};

// Declares the states "optimizer.square.<parameter>" and, with momentum,
// "optimizer.momentum.<parameter>".
class Rmsprop final : public Optimizer {
 public:
  // Throws ConfigError for an invalid setting.
  Rmsprop(Store& store, Tensors parameters, const RmspropParams& params);
  void step(std::span<const Tensor> gradients, const Tensor& lr) override;

 private:
  const RmspropParams params_;
  Tensors square_, momentum_;
};

}  // namespace tessera
