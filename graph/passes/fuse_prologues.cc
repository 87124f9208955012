#include <algorithm>

#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"
#include "tessera/runtime/context.h"

namespace tessera {
namespace {

// The readers of what a pointwise node makes, each with that node's program in it.
struct Absorbing {
  int node;
  Absorbed absorbed;
};

// What a reader becomes, or nothing where it cannot apply the program itself.
std::optional<Absorbed> absorbed_by(const Graph& graph, const Node& maker, int reader) {
  const Node& node = graph.nodes[reader];
  const ValueId id = maker.outputs[0];
  if (node.device != maker.device) return std::nullopt;
  if (std::count(node.inputs.begin(), node.inputs.end(), id) != 1) return std::nullopt;
  const auto at = std::find(node.inputs.begin(), node.inputs.end(), id) - node.inputs.begin();
  return node.op->absorb_prologue(*maker.op->pointwise(), static_cast<int>(at),
                                  graph.input_specs(node), graph.input_specs(maker),
                                  context(node.device).target());
}

// All readers or none: as long as one is left, the value is in memory anyway.
std::vector<Absorbing> all_readers(const Graph& graph, const std::vector<std::vector<int>>& readers,
                                   int maker) {
  std::vector<Absorbing> all;
  const Node& node = graph.nodes[maker];
  for (const int reader : readers[node.outputs[0]]) {
    if (reader == static_cast<int>(graph.nodes.size())) return {};
    if (overwritten_between(graph, maker, reader)) return {};
    auto absorbed = absorbed_by(graph, node, reader);
    if (!absorbed) return {};
    all.push_back({reader, std::move(*absorbed)});
  }
  return all;
}

}  // namespace

int fuse_prologues(Graph& graph) {
  const auto readers = graph.readers();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s) {
    Node& maker = graph.nodes[s];
    if (maker.op == nullptr || !maker.op->pointwise()) continue;
    const std::vector<Absorbing> all = all_readers(graph, readers, s);
    if (all.empty()) continue;
    for (const Absorbing& reader : all) {
      Node& node = graph.nodes[reader.node];
      node.inputs = absorbed_inputs(reader.absorbed, node, maker);
      node.op = reader.absorbed.op;
    }
    maker = Node{};
    ++fused;
  }
  drop_emptied(graph);
  return fused;
}

}  // namespace tessera
