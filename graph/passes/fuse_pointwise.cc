#include <algorithm>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/scalar_simplify.h"
#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

// Limits of a fused node; more would evict the blocks it works on from the first-level cache.
constexpr int kMaxInputs = 12, kMaxRegisters = 28;

// Replaces both nodes by one that runs the joined program and reads each value once.
bool fuse_pointwise_at(Graph& graph, std::vector<std::vector<int>>& users, const FusionSite& site) {
  const Node& producer = graph.nodes[site.producer];
  const Node& consumer = graph.nodes[site.consumer];
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
  ScalarProgram joined =
      rename_inputs(compose(*f, *g, site.fused_input), map, static_cast<int>(distinct.size()));
  const DType dtype = graph.values[consumer.outputs[0]].spec.dtype;
  if (SimplifiedProgram shorter = simplified(joined, dtype); shorter.changed && shorter.input < 0)
    joined = std::move(shorter.program);
  std::string name = std::string(producer.op->name()) + "+" + std::string(consumer.op->name());
  auto op = std::make_shared<Pointwise>(PointwiseParams{std::move(name), std::move(joined)});
  replace(graph, users, site, std::move(op), std::move(distinct),
          joined_module_path(producer.module_path, consumer.module_path));
  return true;
}

}  // namespace

int fuse_pointwise(Graph& graph) {
  auto users = graph.users();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s) {
    for (bool again = true; again;) {
      again = false;
      const Node& node = graph.nodes[s];
      if (node.op == nullptr || !node.op->pointwise()) break;
      for (int fused_input = 0; fused_input < static_cast<int>(node.inputs.size()) && !again;
           ++fused_input) {
        FusionSite site = fusion_site(graph, users, s, fused_input);
        if (site.producer >= 0 && graph.nodes[site.producer].op->pointwise())
          again = fuse_pointwise_at(graph, users, site);
      }
      fused += again;
    }
  }
  erase_dead_nodes(graph);
  return fused;
}

}  // namespace tessera
