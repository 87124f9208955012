// Optimizers: they hold the state of a set of parameters and update both in every step, by ops, so
// that a captured step holds the updates too. A parameter whose gradient is not finite, or all of
// them where lr is not, stay as they are, with their state (Context::refused_updates() counts).
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
  // that the host sets, so that a captured step reads it anew. Throws ShapeError when the counts or
  // shapes differ.
  virtual void step(std::span<const Tensor> gradients, const Tensor& lr) = 0;

  const Tensors& parameters() const { return parameters_; }
  // Factors of the learning rate and the weight decay of each parameter, in their order; 1 until
  // then. Before the first step. Throws ConfigError for another count.
  void set_scales(std::vector<ParameterScale> scales);

 protected:
  explicit Optimizer(Tensors parameters)
      : parameters_(std::move(parameters)), scales_(parameters_.size()) {}
  // Throws ShapeError unless there is a gradient for each parameter.
  void check_count(std::string_view op_name, std::span<const Tensor> gradients) const;
  // A state beside each parameter, or one, of zeros unless told, named
  // "optimizer.<what>.<parameter>".
  Tensors declare_states(Store& store, std::string_view what,
                         const Initializer& first = Initializer::zeros()) const;
  static Tensor declare_state(Store& store, std::string_view what, const Tensor& parameter,
                              const Initializer& first = Initializer::zeros());

  // Calls update(first, count) for the parameters that one op updates together. On the CPU each has
  // an op of its own, so that a captured step frees a gradient as soon as it has been used. On a
  // GPU an op takes all of one dtype: starting many small kernels would cost more than what they
  // do. All gradients then stand in memory at the end of the backward pass, where the activations,
  // which were more, are gone.
  template <class F>
  void for_each_group(F&& update) const {
    for (size_t first = 0, count = 0; first < parameters_.size(); first += count) {
      count = joined(first);
      update(first, count);
    }
  }

  Tensors parameters_;
  std::vector<ParameterScale> scales_;

 private:
  size_t joined(size_t first) const;
};

// lr, or NaN unless all numbers of all tensors are finite: a step with it updates everything or
// nothing. That no update is made before all gradients are there may cost memory. All float.
Tensor lr_if_finite(const Tensor& lr, Tensors tensors);

// What a parameter's update is made of: 1 where lr and all numbers of the gradient are finite, else
// 0, and then the update counts as refused (Context::refused_updates()). Shape [], of the
// gradient's dtype.
Tensor update_gate(const Tensor& lr, const Tensor& gradient);

// The next version of a counter, int64[1]: one more, unless lr is not finite, as then nothing is
// updated.
Tensor increment_step(const Tensor& counter, const Tensor& lr);

// The name a parameter or state was declared under.
const std::string& persistent_name(const Tensor& tensor);

}  // namespace tessera
