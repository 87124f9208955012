#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

bool fuse_at(Graph& graph, std::vector<std::vector<int>>& readers, const FusionSite& site) {
  const Node& producer = graph.nodes[site.producer];
  const Node& consumer = graph.nodes[site.consumer];
  auto program = consumer.op->pointwise();
  auto absorbed = producer.op->absorb_epilogue(
      *program, site.fused_input, graph.input_specs(producer), graph.input_specs(consumer));
  if (!absorbed) return false;
  std::vector<ValueId> inputs = absorbed_inputs(*absorbed, producer, consumer);
  // Of both, the one that absorbs does most of the work.
  std::string place = producer.module_path.empty() ? consumer.module_path : producer.module_path;
  replace(graph, readers, site, absorbed->op, std::move(inputs), std::move(place));
  return true;
}

}  // namespace

int fuse_epilogues(Graph& graph) {
  auto readers = graph.readers();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s) {
    const Node& node = graph.nodes[s];
    if (node.op == nullptr || !node.op->pointwise()) continue;
    for (int fused_input = 0; fused_input < static_cast<int>(node.inputs.size()); ++fused_input) {
      FusionSite site = fusion_site(graph, readers, s, fused_input);
      if (site.producer < 0 || graph.nodes[site.producer].op->pointwise()) continue;
      if (fuse_at(graph, readers, site)) {
        ++fused;
        break;
      }
    }
  }
  drop_emptied(graph);
  return fused;
}

}  // namespace tessera
