#include <algorithm>

#include "tessera/engine/pointwise.h"
#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

// Reads of a fused step; more would spill the blocks it works on out of the first-level cache.
constexpr int kMaxInputs = 12, kMaxRegisters = 28;

// The joined program, each value read once.
bool fuse_at(Graph& graph, std::vector<std::vector<int>>& readers, const FusionSite& site) {
  const GraphStep& producer = graph.steps[site.producer];
  const GraphStep& consumer = graph.steps[site.consumer];
  auto f = producer.op->pointwise(), g = consumer.op->pointwise();
  if (!f || !g || f->registers() + g->registers() > kMaxRegisters) return false;
  std::vector<ValueId> all = fused_inputs(graph, site), distinct;
  std::vector<int> map;
  for (ValueId id : all) {
    auto at = std::find(distinct.begin(), distinct.end(), id);
    map.push_back(static_cast<int>(at - distinct.begin()));
    if (at == distinct.end()) distinct.push_back(id);
  }
  if (distinct.size() > kMaxInputs) return false;
  ScalarProgram joined = rename_inputs(compose(*f, *g, site.hot), map,
                                       static_cast<int>(distinct.size()));
  std::string name = std::string(producer.op->name()) + "+" + std::string(consumer.op->name());
  auto op = std::make_shared<Pointwise>(PointwiseParams{std::move(name), std::move(joined)});
  replace(graph, readers, site, std::move(op), std::move(distinct));
  return true;
}

}  // namespace

int fuse_pointwise(Graph& graph) {
  auto readers = graph.readers();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.steps.size()); ++s) {
    for (bool again = true; again;) {
      again = false;
      const GraphStep& step = graph.steps[s];
      if (step.op == nullptr || !step.op->pointwise()) break;
      for (int hot = 0; hot < static_cast<int>(step.inputs.size()) && !again; ++hot) {
        FusionSite site = fusion_site(graph, readers, s, hot);
        if (site.producer >= 0 && graph.steps[site.producer].op->pointwise())
          again = fuse_at(graph, readers, site);
      }
      fused += again;
    }
  }
  drop_emptied(graph);
  return fused;
}

}  // namespace tessera
