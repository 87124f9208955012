// The settings of each optimizer, for the optimizers and for configurations. What they mean stands
// in the optimizer's own header.
#pragma once

namespace tessera {

struct SgdParams {
  double momentum = 0;
  bool nesterov = false;      // needs momentum > 0
  double weight_decay = 0;    // times the parameter, added to the gradient
  bool decay_vectors = true;  // false: parameters of one axis (biases, norms) do not decay
  double vector_lr = 1;       // factor of the learning rate of parameters of one axis
  bool operator==(const SgdParams&) const = default;
};

struct AdamWParams {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  bool decay_vectors = true;  // false: parameters of one axis (biases, norms) do not decay
  double vector_lr = 1;       // factor of the learning rate of parameters of one axis
  bool operator==(const AdamWParams&) const = default;
};

}  // namespace tessera
