// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019), as PyTorch defines
// it. With g the gradient, p the parameter, m and v its moments (zeros at first), t = 1, 2, ...:
//
//   p <- p (1 - lr weight_decay)
//   m <- m + (1 - beta1) (g - m)          v <- beta2 v + (1 - beta2) g^2
//   p <- p - lr / (1 - beta1^t) m / (sqrt(v / (1 - beta2^t)) + epsilon)
#pragma once

#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/layers/optimizers/optimizer_params.h"

namespace tessera {

// One parameter's update. All of one shape and float dtype; t is int64[1], already counted up for
// this step; lr has one element, float32 or float64. Throws ShapeError.
void adamw_update(const Tensor& parameter, const Tensor& gradient, const Tensor& m, const Tensor& v,
                  const Tensor& t, const Tensor& lr, const AdamWParams& params);

// Adam (Kingma and Ba 2015) with params.coupled: the parameter is not made smaller, but
// weight_decay p is added to g first.

// Declares the states "optimizer.m.<parameter>" and "optimizer.v.<parameter>" for each parameter,
// and one int64 "optimizer.step" that every step counts up.
class AdamW final : public Optimizer {
 public:
  // Throws ConfigError for an invalid setting.
  AdamW(Store& store, Tensors parameters, const AdamWParams& params);
  void step(std::span<const Tensor> gradients, const Tensor& lr) override;

 private:
  const AdamWParams params_;
  Tensors m_, v_;
  Tensor step_;
};

}  // namespace tessera
