// Optimizer: holds the state of a set of parameters and updates both in every step. Updates are
// ops, so a captured step contains them. A parameter whose gradient is not finite stays unchanged,
// with its state; so do all parameters if lr is not finite. Context::skipped_updates() counts
// skipped updates.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/engine/store.h"
#include "tessera/engine/tensor.h"
#include "tessera/layers/optimizers/optimizer_params.h"

namespace tessera {

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter. gradients[i] belongs to parameters()[i]; lr is a tensor of one element
  // that the host sets, so that a captured step reads its current value. Throws ShapeError if the
  // counts or shapes differ.
  void step(std::span<const Tensor> gradients, const Tensor& lr);

  const Tensors& parameters() const { return parameters_; }
  // Sets the factors of the learning rate and the weight decay of each parameter, in order; 1 by
  // default. Requires that no step has been made. Throws ConfigError if the counts differ.
  void set_scales(std::vector<ParameterScale> scales);

 protected:
  // `name`: for errors
  Optimizer(std::string_view name, Tensors parameters)
      : parameters_(std::move(parameters)), scales_(parameters_.size()), name_(name) {}
  // Does what step() does, for a gradient of each parameter. Nothing is recorded on the tape.
  virtual void update(std::span<const Tensor> gradients, const Tensor& lr) = 0;
  // Declares a state for each parameter, or for one, with the initial value `first`, named
  // "optimizer.<what>.<parameter>".
  Tensors declare_states(Store& store, std::string_view what,
                         const Initializer& first = Initializer::zeros()) const;
  static Tensor declare_state(Store& store, std::string_view what, const Tensor& parameter,
                              const Initializer& first = Initializer::zeros());

  // Declares "optimizer.step", int64 [1], for increment_step().
  static Tensor declare_step(Store& store);

  Tensors parameters_;
  std::vector<ParameterScale> scales_;

 private:
  const std::string_view name_;
};

// Returns lr if all elements of all tensors are finite, else NaN. A step with this learning rate
// updates either every parameter or none. The updates wait for all gradients, which may raise the
// peak memory. All tensors are floating point.
Tensor lr_if_finite(const Tensor& lr, Tensors tensors);

// Returns every tensor times the factor, which has one element and their dtype. On a GPU one kernel
// computes many tensors.
Tensors scaled_by(Tensors tensors, const Tensor& factor);

// Returns the gate of an update: 1 if lr and all elements of the gradient are finite, else 0 (Apex
// noop_flag). 0 also counts a skipped update (Context::skipped_updates()). Shape [], in the
// gradient's dtype.
Tensor update_gate(const Tensor& lr, const Tensor& gradient);

// Returns the next version of a counter, int64[1]: one more, or the same if lr is not finite, as
// then nothing is updated.
Tensor increment_step(const Tensor& counter, const Tensor& lr);

// Returns the name under which a parameter or state was declared.
const std::string& persistent_name(const Tensor& tensor);

}  // namespace tessera
