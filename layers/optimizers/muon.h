// Muon (Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"), as in
// PyTorch, in the precision of the parameters. A matrix, or filters [out, ..] viewed as a matrix of
// `out` rows, moves along the orthogonal matrix nearest to its momentum b (initially zero). For
// gradient g and parameter p of shape [a x b]:
//
//   b <- b + (1 - momentum) (g - b)        u = nesterov ? g + momentum (b - g) : b
//   X = u / max(|u|, 1e-7)
//   `steps` Newton-Schulz iterations: A = X X^T,  X <- 3.4445 X + (2.0315 A^2 - 4.7750 A) X
//   p <- p (1 - lr weight_decay) - lr s X,   s = sqrt(max(1, a / b))
//                                  with match_adamw (Liu et al. 2025)  s = 0.2 sqrt(max(a, b))
//
// 1-D parameters are updated by AdamW (adamw.h), with lr vector_lr.
#pragma once

#include <memory>

#include "tessera/layers/optimizers/adamw.h"
#include "tessera/layers/optimizers/optimizer.h"

namespace tessera {

struct MuonParams {
  double momentum = 0.95;
  bool nesterov = true;
  int steps = 5;             // Newton-Schulz iterations
  bool match_adamw = false;  // steps as large as AdamW's
  double weight_decay = 0.1;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // for AdamW
  bool decay_vectors = true;  // false: no decay of 1-D parameters (biases, norm scales)
  double vector_lr = 1;       // factor of the learning rate of 1-D parameters
};

// Returns the orthogonal matrix nearest to `matrix` [rows, columns], as approximated by `steps`
// Newton-Schulz iterations.
Tensor newton_schulz(const Tensor& matrix, int steps);

// Declares a state "optimizer.momentum.<parameter>" for each matrix, and AdamW's for the rest.
class Muon final : public Optimizer {
 public:
  // Throws ConfigError for an invalid setting.
  Muon(Store& store, Tensors parameters, const MuonParams& params);

 private:
  void update(std::span<const Tensor> gradients, const Tensor& lr) override;
  const MuonParams params_;
  std::vector<size_t> matrices_, vectors_;  // indices of parameters
  Tensors momentum_;                        // one for each matrix
  std::unique_ptr<AdamW> adamw_;            // for the vectors
};

}  // namespace tessera
