#include "tessera/layers/optimizer.h"

#include <fmt/format.h>

#include "tessera/engine/storage.h"
#include "tessera/runtime/error.h"

namespace tessera {

const std::string& persistent_name(const Tensor& tensor) { return tensor.impl()->storage->name; }

void Optimizer::check_count(std::string_view who, std::span<const Tensor> gradients) const {
  if (gradients.size() == parameters_.size()) return;
  throw ShapeError(fmt::format("{}: takes one gradient for each of its {} parameters, was given {}",
                               who, parameters_.size(), gradients.size()));
}

Tensors Optimizer::declare_states(Store& store, std::string_view what) const {
  Tensors states;
  for (const Tensor& parameter : parameters_) {
    states.push_back(store.state(fmt::format("optimizer.{}.{}", what, persistent_name(parameter)),
                                 parameter.shape(), Initializer::zeros(), parameter.dtype()));
  }
  return states;
}

}  // namespace tessera
