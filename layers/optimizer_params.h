// The settings of each optimizer, for the optimizers and for configurations. What they mean stands
// in the optimizer's own header.
#pragma once

namespace tessera {

// What one parameter has of its own, times the optimizer's settings.
struct ParameterScale {
  double lr = 1, decay = 1;
  bool operator==(const ParameterScale&) const = default;
};

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
  bool coupled = false;       // the decay is a part of the gradient: Adam
  bool operator==(const AdamWParams&) const = default;
};

struct RmspropParams {
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;
  bool eps_in_root = false;   // as TensorFlow and timm's RMSpropTF have it
  double weight_decay = 0;    // times the parameter, added to the gradient
  bool decay_vectors = true;  // false: parameters of one axis (biases, norms) do not decay
  double vector_lr = 1;       // factor of the learning rate of parameters of one axis
};

struct LionParams {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  bool decay_vectors = true;  // false: parameters of one axis (biases, norms) do not decay
  double vector_lr = 1;       // factor of the learning rate of parameters of one axis
};

struct LambParams {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  double weight_decay = 0.01;
  bool decay_vectors = true;  // false: parameters of one axis (biases, norms) do not decay
  double vector_lr = 1;       // factor of the learning rate of parameters of one axis
};

struct LarsParams {
  double momentum = 0.9;
  bool nesterov = false;
  double trust = 0.001;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decay_vectors = true;  // false: parameters of one axis (biases, norms) do not decay
  double vector_lr = 1;       // factor of the learning rate of parameters of one axis
};

struct MuonParams {
  double momentum = 0.95;
  bool nesterov = true;
  int steps = 5;             // of Newton and Schulz
  bool match_adamw = false;  // steps as large as AdamW's
  double weight_decay = 0.1;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // of vectors
  bool decay_vectors = true;  // false: parameters of one axis (biases, norms) do not decay
  double vector_lr = 1;       // factor of the learning rate of parameters of one axis
};

}  // namespace tessera
