// Optimizers: they hold the state of a set of parameters and update both in every step, by ops, so
// that a captured step holds the updates too. A parameter whose gradient is not finite, or all of
// them where lr is not, stay as they are, with their state (Context::refused_updates() counts).
#pragma once

#include <memory>
#include <span>
#include <string>

#include "tessera/engine/store.h"
#include "tessera/engine/tensor.h"

namespace tessera {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter. gradients[i] belongs to parameters()[i]; lr is a tensor of one element
  // that the host sets, so that a captured step reads it anew. Throws ShapeError when the counts or
  // shapes differ.
  virtual void step(std::span<const Tensor> gradients, const Tensor& lr) = 0;

  const Tensors& parameters() const { return parameters_; }

 protected:
  explicit Optimizer(Tensors parameters) : parameters_(std::move(parameters)) {}
  // Throws ShapeError unless there is a gradient for each parameter.
  void check_count(std::string_view who, std::span<const Tensor> gradients) const;
  // A state of zeros beside each parameter, named "optimizer.<what>.<parameter>".
  Tensors declare_states(Store& store, std::string_view what) const;

  Tensors parameters_;
};

// lr, or NaN unless all numbers of all tensors are finite: a step with it updates everything or
// nothing. That no update is made before all gradients are there may cost memory. All float.
Tensor lr_if_finite(const Tensor& lr, Tensors tensors);

// The name a parameter or state was declared under.
const std::string& persistent_name(const Tensor& tensor);

}  // namespace tessera
