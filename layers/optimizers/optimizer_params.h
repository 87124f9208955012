// The settings of the optimizers that have kernels of their own; their headers have the formulas.
#pragma once

namespace tessera {

// Per-parameter factors of the learning rate and the weight decay.
struct ParameterScale {
  double lr = 1, decay = 1;
  bool operator==(const ParameterScale&) const = default;
};

struct SgdParams {
  double momentum = 0;
  bool nesterov = false;      // requires momentum > 0
  double weight_decay = 0;    // times the parameter, added to the gradient
  bool decay_vectors = true;  // false: no decay of 1-D parameters (biases, norm scales)
  double vector_lr = 1;       // factor of the learning rate of 1-D parameters
  bool operator==(const SgdParams&) const = default;
};

struct AdamWParams {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  bool decay_vectors = true;  // false: no decay of 1-D parameters (biases, norm scales)
  double vector_lr = 1;       // factor of the learning rate of 1-D parameters
  bool coupled = false;       // the decay is a part of the gradient: Adam
  bool operator==(const AdamWParams&) const = default;
};

}  // namespace tessera
