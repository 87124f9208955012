#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

bool fuse_at(Graph& graph, std::vector<std::vector<int>>& readers, const FusionSite& site) {
  const GraphStep& producer = graph.steps[site.producer];
  const GraphStep& consumer = graph.steps[site.consumer];
  auto program = consumer.op->pointwise();
  auto absorbed = producer.op->absorb_epilogue(*program, site.hot, graph.input_specs(producer),
                                               graph.input_specs(consumer));
  if (!absorbed) return false;
  std::vector<ValueId> inputs;
  for (int from : absorbed->inputs)
    inputs.push_back(from >= 0 ? producer.inputs[from] : consumer.inputs[-1 - from]);
  replace(graph, readers, site, absorbed->op, std::move(inputs));
  return true;
}

}  // namespace

int fuse_epilogues(Graph& graph) {
  auto readers = graph.readers();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.steps.size()); ++s) {
    const GraphStep& step = graph.steps[s];
    if (step.op == nullptr || !step.op->pointwise()) continue;
    for (int hot = 0; hot < static_cast<int>(step.inputs.size()); ++hot) {
      FusionSite site = fusion_site(graph, readers, s, hot);
      if (site.producer < 0 || graph.steps[site.producer].op->pointwise()) continue;
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
