// What the passes over constants share: values that are the same in every run.
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

// A constant as a tensor, which shares its bytes.
Tensor constant_tensor(const Graph& graph, ValueId id);
// Makes a value a constant, with the bytes of the tensor.
void set_constant(Value& value, const Tensor& tensor);
// Adds one.
ValueId add_constant(Graph& graph, const Tensor& tensor);
// What `compute` makes of constants now, on the device.
template <class Compute>
auto run_now(Device device, const Compute& compute) {
  const RecorderScope now(nullptr);
  const NoGradScope no_grad;
  const DeviceScope there(device);
  return compute();
}
// Lets the bytes of constants go that nobody reads any more.
void erase_unused_constants(Graph& graph);

// Parameters and buffers that the graph does not update become constants, by their bytes of now.
void freeze_persistent(Graph& graph);
// Gives constants that stand in the memory of a Store memory of their own, so that the store may
// go.
void copy_from_stores(Graph& graph);

}  // namespace tessera
