#include <algorithm>

#include "tessera/graph/lifetimes.h"
#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

// For each node, the number of nodes it waits for and the nodes that wait for it. A node waits for
// the producers of its inputs, an update also for all users of the version that it overwrites.
struct Dependences {
  std::vector<int> waits;
  std::vector<std::vector<int>> followers;
};

Dependences dependences(const Graph& graph) {
  Dependences result{std::vector<int>(graph.nodes.size(), 0),
                     std::vector<std::vector<int>>(graph.nodes.size())};
  auto after = [&](int first, int then) {
    if (first < 0 || first == then) return;
    result.followers[first].push_back(then);
    ++result.waits[then];
  };
  std::vector<ValueId> roots = graph.roots();
  std::vector<std::vector<int>> root_users(graph.values.size());
  for (size_t s = 0; s < graph.nodes.size(); ++s)
    for (ValueId id : graph.nodes[s].inputs) root_users[roots[id]].push_back(static_cast<int>(s));
  for (size_t s = 0; s < graph.nodes.size(); ++s) {
    const Node& node = graph.nodes[s];
    for (ValueId id : node.inputs) after(graph.values[id].producer, static_cast<int>(s));
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      int updates = node.op->updates(static_cast<int>(o));
      if (updates < 0) continue;
      for (int consumer : root_users[node.inputs[updates]]) after(consumer, static_cast<int>(s));
    }
  }
  return result;
}

}  // namespace

int order_updates(Graph& graph) {
  Dependences wait = dependences(graph);
  // Keep the recorded order, but run updates as soon as they are ready.
  std::vector<int> order, ready_updates;
  std::vector<bool> done(graph.nodes.size(), false);
  auto emit = [&](int s) {
    order.push_back(s);
    done[s] = true;
    for (int follower : wait.followers[s])
      if (--wait.waits[follower] == 0 && graph.nodes[follower].is_update())
        ready_updates.push_back(follower);
  };
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s) {
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
  for (size_t i = 0; i < order.size(); ++i) reordered.nodes[i] = graph.nodes[order[i]];
  reordered.index();
  std::vector<int64_t> no_scratch(graph.nodes.size(), 0);
  if (peak_bytes(reordered, no_scratch) > peak_bytes(graph, no_scratch)) return 0;
  graph = std::move(reordered);
  return moved;
}

}  // namespace tessera
