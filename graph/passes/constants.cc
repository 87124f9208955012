// Passes over constants: values that are the same in every run.
#include <algorithm>
#include <optional>

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"
#include "tessera/runtime/context.h"

namespace tessera {
namespace {

bool is_constant(const Graph& graph, ValueId id) { return graph.values[id].role == Role::constant; }

// Returns a constant as a tensor that shares its bytes.
Tensor constant_tensor(const Value& value) {
  return make_tensor(value.spec, value.storage, value.offset);
}
Tensor constant_tensor(const Graph& graph, ValueId id) { return constant_tensor(graph.values[id]); }

// Makes `value` a constant with the bytes of the tensor.
void set_constant(Value& value, const Tensor& tensor) {
  value.role = Role::constant;
  value.producer = -1;
  value.spec = tensor.spec();
  value.storage = tensor.impl()->storage;
  value.offset = tensor.impl()->offset;
}

// Adds a constant and returns its id.
ValueId add_constant(Graph& graph, const Tensor& tensor) {
  Value value;
  set_constant(value, tensor);
  graph.values.push_back(std::move(value));
  return static_cast<ValueId>(graph.values.size() - 1);
}

// Returns the result of compute(), run eagerly on the device.
template <class Compute>
auto run_now(Device device, const Compute& compute) {
  const RecorderScope now(nullptr);
  const NoGradScope no_grad;
  const DeviceScope there(device);
  return compute();
}

// Frees the bytes of constants without users.
void erase_unused_constants(Graph& graph) {
  const auto users = graph.users();
  for (size_t id = 0; id < graph.values.size(); ++id) {
    Value& value = graph.values[id];
    if (value.role != Role::constant || !users[id].empty()) continue;
    value.role = Role::intermediate;  // like other values without a producer
    value.storage.reset();
  }
}

// A folded value may have up to this many bytes even if its inputs have fewer. Larger values must
// not exceed their inputs, because a folded value is kept for all later runs.
constexpr size_t kFoldedBytes = 4096;

bool folds(const Graph& graph, const Node& node) {
  const auto constant = [&](ValueId id) { return is_constant(graph, id); };
  if (node.inputs.empty() || node.is_update() || context(node.device).plans_only() ||
      !std::ranges::all_of(node.inputs, constant))
    return false;
  size_t read = 0, made = 0;
  for (const ValueId id : node.inputs) read += graph.values[id].spec.bytes();
  for (const ValueId id : node.outputs) made += graph.values[id].spec.bytes();
  return made <= std::max(read, kFoldedBytes);
}

bool reads(const Instruction& in, int r) {
  for (int k = 0; k < operand_count(in.op); ++k)
    if (in.operand(k) == r) return true;
  return false;
}

int uses_of(const ScalarProgram& p, int r) {
  return static_cast<int>(
             std::ranges::count_if(p.code, [&](const Instruction& in) { return reads(in, r); })) +
         (p.result() == r);
}

// The instruction at which a program multiplies its input `x` by another input, if `x` has no other
// use.
struct Scaling {
  size_t instruction;
  int scale;
};
std::optional<Scaling> scaling_of(const ScalarProgram& p, int x) {
  if (uses_of(p, x) != 1) return std::nullopt;
  for (size_t i = 0; i < p.code.size(); ++i) {
    const Instruction& in = p.code[i];
    if (!reads(in, x)) continue;
    const int other = in.a == x ? in.b : in.a;
    const bool last = i + 1 == p.code.size();
    if (in.op != ScalarOp::mul || in.a == in.b || other >= p.inputs || last) return std::nullopt;
    return Scaling{i, other};
  }
  return std::nullopt;
}

// Returns the program without that instruction; x takes the place of its result.
ScalarProgram without(const ScalarProgram& p, const Scaling& scaling, int x) {
  const int removed = p.inputs + static_cast<int>(scaling.instruction);
  ScalarProgram rest{p.inputs, {}};
  for (size_t i = 0; i < p.code.size(); ++i) {
    if (i == scaling.instruction) continue;
    Instruction in = p.code[i];
    in.rename([&](uint8_t r) { return r == removed ? x : r > removed ? r - 1 : r; });
    rest.code.push_back(in);
  }
  return rest;
}

// Returns filters [o, ...] with slice k multiplied by scale[k].
Tensor scaled(const Tensor& filters, const Tensor& scale) {
  std::vector<int64_t> sizes(static_cast<size_t>(filters.shape().rank()), 1);
  sizes[0] = filters.shape()[0];
  return run_now(filters.device(), [&] { return filters * reshape(scale, Shape(sizes)); });
}

// Folds the multiplication of input x of node s.
bool fold_at(Graph& graph, const std::vector<std::vector<int>>& users, int s, int x) {
  Node& node = graph.nodes[s];
  const auto* op = dynamic_cast<const Pointwise*>(node.op.get());
  if (op == nullptr) return false;
  const Value& value = graph.values[node.inputs[x]];
  const Shape& out = graph.values[node.outputs[0]].spec.shape;
  if (!is_sole_user(graph, users, s, node.inputs[x]) || value.spec.shape != out) return false;
  Node& producer = graph.nodes[value.producer];
  const int filters = producer.op->scales_by_channel(graph.input_specs(producer));
  if (filters < 0 || !is_constant(graph, producer.inputs[filters])) return false;
  const auto scaling = scaling_of(op->params.program, x);
  if (!scaling) return false;
  const ValueId scale = node.inputs[scaling->scale];
  const Shape& shape = graph.values[scale].spec.shape;
  if (!is_constant(graph, scale) || shape.rank() != 1 || shape[0] != out.back()) return false;
  ValueId& weights = producer.inputs[filters];
  weights =
      add_constant(graph, scaled(constant_tensor(graph, weights), constant_tensor(graph, scale)));
  node.op = std::make_shared<Pointwise>(
      PointwiseParams{op->params.name, without(op->params.program, *scaling, x)});
  // Drop the scale input, which is unused now.
  if (const auto shorter = node.op->simplified(graph.input_specs(node)); shorter && shorter->op) {
    node.inputs = fused_inputs(*shorter, node, node);
    node.op = shorter->op;
  }
  return true;
}

}  // namespace

void freeze_persistent(Graph& graph) {
  std::vector<bool> updated(graph.values.size(), false);
  for (const Value& value : graph.values)
    if (value.previous >= 0) updated[value.previous] = true;
  for (size_t id = 0; id < graph.values.size(); ++id) {
    Value& value = graph.values[id];
    if (value.persistent() && value.previous < 0 && !updated[id]) value.role = Role::constant;
  }
}

void copy_from_stores(Graph& graph) {
  for (Value& value : graph.values) {
    if (value.role != Role::constant || value.storage->store == nullptr) continue;
    const Tensor there = constant_tensor(value);
    set_constant(value, run_now(there.device(), [&] { return copy(there); }));
  }
}

int fold_constants(Graph& graph) {
  int folded = 0;
  for (Node& node : graph.nodes) {
    if (!folds(graph, node)) continue;
    Tensors inputs;
    for (const ValueId id : node.inputs) inputs.push_back(constant_tensor(graph, id));
    const Tensors results = run_now(node.device, [&] { return tessera::apply(node.op, inputs); });
    for (size_t i = 0; i < results.size(); ++i)
      set_constant(graph.values[node.outputs[i]], results[i]);
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
    ValueId& input = node.inputs[packing->input];
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

int fold_scales(Graph& graph) {
  const auto users = graph.users();
  const int folded = fuse_inputs(
      graph, [&](int s, int x) { return fold_at(graph, users, s, x); }, true);
  erase_unused_constants(graph);
  return folded;
}

}  // namespace tessera
