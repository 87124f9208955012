#include <algorithm>
#include <optional>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/passes/constants.h"
#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

bool reads(const Instruction& in, int r) {
  const int count = operand_count(in.op);
  return (count > 0 && in.a == r) || (count > 1 && in.b == r) || (count > 2 && in.c == r);
}

int uses_of(const ScalarProgram& p, int r) {
  return static_cast<int>(std::count_if(p.code.begin(), p.code.end(),
                                        [&](const Instruction& in) { return reads(in, r); })) +
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
  const auto renamed = [&](uint8_t r) {
    return static_cast<uint8_t>(r == removed ? x : r > removed ? r - 1 : r);
  };
  ScalarProgram rest{p.inputs, {}};
  for (size_t i = 0; i < p.code.size(); ++i) {
    if (i == scaling.instruction) continue;
    Instruction in = p.code[i];
    in.a = renamed(in.a), in.b = renamed(in.b), in.c = renamed(in.c);
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

bool fold_at(Graph& graph, const std::vector<std::vector<int>>& users, int s, int x) {
  Node& node = graph.nodes[static_cast<size_t>(s)];
  const auto* op = dynamic_cast<const Pointwise*>(node.op.get());
  if (op == nullptr) return false;
  const FusionSite site = fusion_site(graph, users, s, x);
  if (site.producer < 0) return false;
  Node& producer = graph.nodes[static_cast<size_t>(site.producer)];
  const int filters = producer.op->scales_by_channel(graph.input_specs(producer));
  if (filters < 0 || !is_constant(graph, producer.inputs[static_cast<size_t>(filters)]))
    return false;
  const auto scaling = scaling_of(op->params.program, x);
  if (!scaling) return false;
  const ValueId scale = node.inputs[static_cast<size_t>(scaling->scale)];
  const Shape& shape = graph.values[static_cast<size_t>(scale)].spec.shape;
  const Shape& out = graph.values[static_cast<size_t>(node.outputs[0])].spec.shape;
  if (!is_constant(graph, scale) || shape.rank() != 1 || shape[0] != out.back()) return false;
  ValueId& weights = producer.inputs[static_cast<size_t>(filters)];
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

int fold_scales(Graph& graph) {
  const auto users = graph.users();
  int folded = 0;
  for (int s = 0; s < std::ssize(graph.nodes); ++s) {
    for (int x = 0; x < std::ssize(graph.nodes[static_cast<size_t>(s)].inputs); ++x)
      if (fold_at(graph, users, s, x)) {
        ++folded;
        break;
      }
  }
  erase_unused_constants(graph);
  return folded;
}

}  // namespace tessera
