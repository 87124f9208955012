// Stochastic gradient descent, as PyTorch defines it (dampening 0). With g the gradient, p the
// parameter, b the momentum buffer (zeros at first):
//
//   g' = g + weight_decay p
//   b <- momentum b + g'
//   p <- p - lr (nesterov ? g' + momentum b : b)        without momentum: p <- p - lr g'
#pragma once

#include "tessera/layers/optimizer.h"

namespace tessera {

struct SgdParams {
  double momentum = 0;
  bool nesterov = false;    // needs momentum > 0
  double weight_decay = 0;  // added to the gradient
  bool operator==(const SgdParams&) const = default;
};

// One parameter's update. All of one shape and float dtype; lr has one element, float32 or float64.
// `momentum` is undefined when params.momentum is 0. Throws ShapeError.
void sgd_update(const Tensor& parameter, const Tensor& gradient, const Tensor& momentum,
                const Tensor& lr, const SgdParams& params);

// Declares a state "optimizer.momentum.<parameter>" for each parameter if momentum is used.
class Sgd final : public Optimizer {
 public:
  struct Settings {
    double momentum = 0;
    bool nesterov = false;
    double weight_decay = 0;
    bool decay_vectors = true;  // false: parameters of one axis (biases, norms) do not decay
  };
  // Throws ConfigError for an invalid setting.
  Sgd(Store& store, Tensors parameters, Settings settings);
  void step(std::span<const Tensor> gradients, const Tensor& lr) override;

 private:
  Settings settings_;
  Tensors momentum_;
};

}  // namespace tessera
