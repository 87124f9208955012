#include <algorithm>

#include "tessera/graph/lifetimes.h"
#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

bool is_update(const GraphStep& step) {
  for (size_t o = 0; o < step.outputs.size(); ++o)
    if (step.op->updates(static_cast<int>(o)) >= 0) return true;
  return false;
}

// For each step the number of steps it waits for, and who waits for it: for the values it reads,
// and an update for all readers of the version it overwrites.
struct Dependences {
  std::vector<int> waits;
  std::vector<std::vector<int>> followers;
};

Dependences dependences(const Graph& graph) {
  Dependences result{std::vector<int>(graph.steps.size(), 0),
                     std::vector<std::vector<int>>(graph.steps.size())};
  auto after = [&](int first, int then) {
    if (first < 0 || first == then) return;
    result.followers[first].push_back(then);
    ++result.waits[then];
  };
  std::vector<ValueId> roots = graph.roots();
  std::vector<std::vector<int>> root_readers(graph.values.size());
  for (size_t s = 0; s < graph.steps.size(); ++s)
    for (ValueId id : graph.steps[s].inputs) root_readers[roots[id]].push_back(static_cast<int>(s));
  for (size_t s = 0; s < graph.steps.size(); ++s) {
    const GraphStep& step = graph.steps[s];
    for (ValueId id : step.inputs) after(graph.values[id].producer, static_cast<int>(s));
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      int updates = step.op->updates(static_cast<int>(o));
      if (updates < 0) continue;
      for (int reader : root_readers[step.inputs[updates]]) after(reader, static_cast<int>(s));
    }
  }
  return result;
}

}  // namespace

int order_updates(Graph& graph) {
  Dependences wait = dependences(graph);
  // Recorded order, but an update that is free to run goes first.
  std::vector<int> order, ready_updates;
  std::vector<bool> done(graph.steps.size(), false);
  auto emit = [&](int s) {
    order.push_back(s);
    done[s] = true;
    for (int follower : wait.followers[s])
      if (--wait.waits[follower] == 0 && is_update(graph.steps[follower]))
        ready_updates.push_back(follower);
  };
  for (int s = 0; s < static_cast<int>(graph.steps.size()); ++s) {
    if (done[s]) continue;
    emit(s);
    for (size_t i = 0; i < ready_updates.size(); ++i)
      if (!done[ready_updates[i]]) emit(ready_updates[i]);
    ready_updates.clear();
  }
  int moved = 0;
  for (size_t i = 0; i < order.size(); ++i) moved += order[i] > static_cast<int>(i);
  if (moved == 0) return 0;

  Graph reordered = graph;
  for (size_t i = 0; i < order.size(); ++i) reordered.steps[i] = graph.steps[order[i]];
  reordered.index();
  std::vector<int64_t> no_scratch(graph.steps.size(), 0);
  if (peak_bytes(reordered, no_scratch) > peak_bytes(graph, no_scratch)) return 0;
  graph = std::move(reordered);
  return moved;
}

}  // namespace tessera
