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

  // Calls update(first, count) for the parameters that one op updates together. On the CPU each has
  // an op of its own, so that a captured step frees a gradient as soon as it has been used. On a
  // GPU an op takes all of one dtype: starting many small kernels would cost more than what they
  // do. All gradients then stand in memory at the end of the backward pass, where the activations,
  // which were more, are gone.
  template <class F>
  void for_joined(F&& update) const {
    for (size_t first = 0, count = 0; first < parameters_.size(); first += count) {
      count = joined(first);
      update(first, count);
    }
  }

  Tensors parameters_;

 private:
  size_t joined(size_t first) const;
};

// lr, or NaN unless all numbers of all tensors are finite: a step with it updates everything or
// nothing. That no update is made before all gradients are there may cost memory. All float.
Tensor lr_if_finite(const Tensor& lr, Tensors tensors);

// The name a parameter or state was declared under.
const std::string& persistent_name(const Tensor& tensor);

}  // namespace tessera
