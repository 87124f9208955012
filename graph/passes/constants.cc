#include "tessera/graph/passes/constants.h"

#include "tessera/engine/structural.h"

namespace tessera {

Tensor constant_tensor(const Graph& graph, ValueId id) {
  const Value& value = graph.values[static_cast<size_t>(id)];
  return make_tensor(value.spec, value.storage, value.offset);
}

void set_constant(Value& value, const Tensor& tensor) {
  value.role = Role::constant;
  value.producer = -1;
  value.spec = tensor.spec();
  value.storage = tensor.impl()->storage;
  value.offset = tensor.impl()->offset;
}

ValueId add_constant(Graph& graph, const Tensor& tensor) {
  Value value;
  set_constant(value, tensor);
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size() - 1);
}

void drop_unread_constants(Graph& graph) {
  const auto readers = graph.readers();
  for (size_t id = 0; id < graph.values.size(); ++id) {
    Value& value = graph.values[id];
    if (value.role != Role::constant || !readers[id].empty()) continue;
    value.role = Role::computed;  // as other values that no node makes any more
    value.storage.reset();
  }
}

void freeze_persistent(Graph& graph) {
  std::vector<bool> updated(graph.values.size(), false);
  for (const Value& value : graph.values)
    if (value.previous >= 0) updated[static_cast<size_t>(value.previous)] = true;
  for (size_t id = 0; id < graph.values.size(); ++id) {
    Value& value = graph.values[id];
    if (value.persistent() && value.previous < 0 && !updated[id]) value.role = Role::constant;
  }
}

void copy_from_stores(Graph& graph) {
  for (size_t id = 0; id < graph.values.size(); ++id) {
    Value& value = graph.values[id];
    if (value.role != Role::constant || value.storage->store == nullptr) continue;
    const Tensor there = constant_tensor(graph, static_cast<ValueId>(id));
    set_constant(value, run_now(there.device(), [&] { return copy(there); }));
  }
}

}  // namespace tessera
