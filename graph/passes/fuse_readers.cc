#include <algorithm>

#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

// What a reader makes is there early; it must be small against what it reads.
constexpr size_t kTimesSmaller = 16;

// Whether all inputs of a node but one are there before node `maker` runs.
bool ready_before(const Graph& graph, const Node& node, ValueId but, int maker) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return id == but || graph.values[id].producer < maker; });
}

bool small(const Graph& graph, const Node& node, ValueId read) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
    return graph.values[id].spec.bytes() * kTimesSmaller <= graph.values[read].spec.bytes();
  });
}

bool fuse_readers_at(Graph& graph, int reader, int fused_input) {
  Node& node = graph.nodes[reader];
  const ValueId id = node.inputs[fused_input];
  const Value& value = graph.values[id];
  if (value.producer < 0 || value.output != 0) return false;
  Node& maker = graph.nodes[value.producer];
  if (maker.op == nullptr || maker.device != node.device || node.is_update()) return false;
  if (std::count(node.inputs.begin(), node.inputs.end(), id) != 1) return false;
  if (!ready_before(graph, node, id, value.producer) || !small(graph, node, id)) return false;
  auto absorbed = maker.op->absorb_reader(node.op, fused_input, graph.input_specs(maker),
                                          graph.input_specs(node));
  if (!absorbed) return false;
  maker.inputs = absorbed_inputs(*absorbed, maker, node);
  maker.op = std::move(absorbed->op);
  maker.outputs.insert(maker.outputs.end(), node.outputs.begin(), node.outputs.end());
  node = Node{};
  return true;
}

}  // namespace

int fuse_readers(Graph& graph) {
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s)
    for (int k = 0; k < static_cast<int>(graph.nodes[s].inputs.size()); ++k)
      if (fuse_readers_at(graph, s, k)) {
        ++fused;
        break;
      }
  drop_emptied(graph);
  return fused;
}

}  // namespace tessera
