#include "tessera/graph/passes/constants.h"

#include <algorithm>

#include "tessera/engine/structural.h"
#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"
#include "tessera/runtime/context.h"

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

void erase_unused_constants(Graph& graph) {
  const auto users = graph.users();
  for (size_t id = 0; id < graph.values.size(); ++id) {
    Value& value = graph.values[id];
    if (value.role != Role::constant || !users[id].empty()) continue;
    value.role = Role::intermediate;  // like other values without a producer
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

namespace {

// A folded value may have up to this many bytes even if its inputs have fewer. Larger values must
// not exceed their inputs, because a folded value is kept for all later runs.
constexpr size_t kFoldedBytes = 4096;

bool folds(const Graph& graph, const Node& node) {
  const auto constant = [&](ValueId id) { return is_constant(graph, id); };
  if (node.inputs.empty() || node.is_update() || context(node.device).plans_only() ||
      !std::all_of(node.inputs.begin(), node.inputs.end(), constant))
    return false;
  size_t read = 0, made = 0;
  for (const ValueId id : node.inputs) read += graph.values[static_cast<size_t>(id)].spec.bytes();
  for (const ValueId id : node.outputs) made += graph.values[static_cast<size_t>(id)].spec.bytes();
  return made <= std::max(read, kFoldedBytes);
}

}  // namespace

int fold_constants(Graph& graph) {
  int folded = 0;
  for (Node& node : graph.nodes) {
    if (!folds(graph, node)) continue;
    Tensors inputs;
    for (const ValueId id : node.inputs) inputs.push_back(constant_tensor(graph, id));
    const Tensors results = run_now(node.device, [&] { return tessera::apply(node.op, inputs); });
    for (size_t i = 0; i < results.size(); ++i)
      set_constant(graph.values[static_cast<size_t>(node.outputs[i])], results[i]);
    node = Node{};
    ++folded;
  }
  erase_dead_nodes(graph);
  erase_unused_constants(graph);
  return folded;
}

int pack_constants(Graph& graph) {
  int packed = 0;
  for (Node& node : graph.nodes) {
    Context& ctx = context(node.device);
    if (ctx.plans_only()) continue;
    const auto packing = node.op->pack_input(graph.input_specs(node), ctx.target());
    if (!packing) continue;
    ValueId& input = node.inputs[static_cast<size_t>(packing->input)];
    if (!is_constant(graph, input)) continue;
    const Tensor whole = constant_tensor(graph, input);
    input = add_constant(
        graph, run_now(node.device, [&] { return tessera::apply1(packing->pack, {whole}); }));
    node.op = packing->op;
    ++packed;
  }
  erase_unused_constants(graph);
  return packed;
}

}  // namespace tessera
