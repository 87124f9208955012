#include <algorithm>

#include "tessera/graph/passes/passes.h"

namespace tessera {

int eliminate_dead_code(Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  for (ValueId id : graph.outputs) needed[id] = true;
  std::deque<Node> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool live = node->is_update() || std::any_of(node->outputs.begin(), node->outputs.end(),
                                                       [&](ValueId id) { return needed[id]; });
    if (!live) continue;
    for (ValueId id : node->inputs) needed[id] = true;
    kept.push_back(std::move(*node));
  }
  int dropped = static_cast<int>(graph.nodes.size() - kept.size());
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  graph.index();
  return dropped;
}

}  // namespace tessera
