#include "tessera/graph/passes/passes.h"

namespace tessera {

int drop_dead_steps(Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  for (ValueId id : graph.outputs) needed[id] = true;
  std::deque<GraphStep> kept;
  for (auto step = graph.steps.rbegin(); step != graph.steps.rend(); ++step) {
    bool live = false;
    for (size_t o = 0; o < step->outputs.size(); ++o)
      live = live || needed[step->outputs[o]] || step->op->updates(static_cast<int>(o)) >= 0;
    if (!live) continue;
    for (ValueId id : step->inputs) needed[id] = true;
    kept.push_back(std::move(*step));
  }
  int dropped = static_cast<int>(graph.steps.size() - kept.size());
  graph.steps.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  graph.index();
  return dropped;
}

}  // namespace tessera
