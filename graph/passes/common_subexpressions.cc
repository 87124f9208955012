#include <map>
#include <string_view>

#include "tessera/graph/passes/passes.h"

namespace tessera {
int eliminate_common_subexpressions(Graph& graph) {
  std::vector<ValueId> replacement(graph.values.size());
  for (size_t id = 0; id < replacement.size(); ++id) replacement[id] = static_cast<ValueId>(id);
  using Key = std::pair<std::string_view, std::vector<ValueId>>;
  std::multimap<Key, const Node*> seen;
  std::deque<Node> kept;  // `seen` points into it
  int merged = 0;
  for (Node& node : graph.nodes) {
    for (ValueId& id : node.inputs) id = replacement[id];
    const Node* twin = nullptr;
    Key key{node.op->name(), node.inputs};
    if (!node.is_update()) {
      auto [first, last] = seen.equal_range(key);
      for (auto it = first; it != last && twin == nullptr; ++it)
        if (it->second->device == node.device && node.op->same(*it->second->op)) twin = it->second;
    }
    if (twin != nullptr) {
      for (size_t o = 0; o < node.outputs.size(); ++o)
        replacement[node.outputs[o]] = twin->outputs[o];
      ++merged;
      continue;
    }
    kept.push_back(std::move(node));
    if (!kept.back().is_update()) seen.emplace(std::move(key), &kept.back());
  }
  for (ValueId& id : graph.outputs) id = replacement[id];
  graph.nodes = std::move(kept);
  graph.index();
  return merged;
}

}  // namespace tessera
