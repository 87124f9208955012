// Helpers of the passes over constants: values that are the same in every run.
#pragma once

#include "tessera/engine/autograd.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/tensor.h"
#include "tessera/graph/graph.h"

namespace tessera {

inline bool is_constant(const Graph& graph, ValueId id) {
  return graph.values[static_cast<size_t>(id)].role == Role::constant;
}

// Returns a constant as a tensor that shares its bytes.
Tensor constant_tensor(const Graph& graph, ValueId id);
// Makes `value` a constant with the bytes of the tensor.
void set_constant(Value& value, const Tensor& tensor);
// Adds a constant and returns its id.
ValueId add_constant(Graph& graph, const Tensor& tensor);
// Returns the result of compute(), run eagerly on the device.
template <class Compute>
auto run_now(Device device, const Compute& compute) {
  const RecorderScope now(nullptr);
  const NoGradScope no_grad;
  const DeviceScope there(device);
  return compute();
}
// Frees the bytes of constants without users.
void erase_unused_constants(Graph& graph);

// Turns parameters and buffers that the graph does not update into constants with their current
// bytes.
void freeze_persistent(Graph& graph);
// Copies constants out of the memory of a Store, so that the store may be freed.
void copy_from_stores(Graph& graph);

}  // namespace tessera
