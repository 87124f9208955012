// RMSprop (Hinton 2012), as in PyTorch. For gradient g, parameter p, its mean square v and momentum
// buffer b (both initially zero):
//
//   g' = g + weight_decay p
//   v <- alpha v + (1 - alpha) g'^2
//   b <- momentum b + g' / (sqrt(v) + epsilon)
//   p <- p - lr b                           without momentum: p <- p - lr g' / (sqrt(v) + epsilon)
//
// eps_in_root selects the form of TensorFlow and timm's RMSpropTF: the divisor is
// sqrt(v + epsilon), v is initially one, and the buffer includes lr:
// b <- momentum b + lr g' / ..., p <- p - b.
#pragma once

#include "tessera/layers/optimizers/optimizer.h"

namespace tessera {

struct RmspropParams {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;
  bool eps_in_root = false;   // form of TensorFlow and timm's RMSpropTF
  double weight_decay = 0;    // times the parameter, added to the gradient
  bool decay_vectors = true;  // false: no decay of 1-D parameters (biases, norm scales)
  double vector_lr = 1;       // factor of the learning rate of 1-D parameters
};

// Declares the states "optimizer.square.<parameter>" and, with momentum,
// "optimizer.momentum.<parameter>".
class Rmsprop final : public Optimizer {
 public:
  // Throws ConfigError for an invalid setting.
  Rmsprop(Store& store, Tensors parameters, const RmspropParams& params);

 private:
  void update(std::span<const Tensor> gradients, const Tensor& lr) override;
  const RmspropParams params_;
  Tensors square_, momentum_;
};

}  // namespace tessera
