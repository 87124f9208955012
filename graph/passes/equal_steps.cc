#include <map>
#include <string_view>

#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

bool updates_something(const GraphStep& step) {
  for (size_t o = 0; o < step.outputs.size(); ++o)
    if (step.op->updates(static_cast<int>(o)) >= 0) return true;
  return false;
}

}  // namespace

int merge_equal_steps(Graph& graph) {
  std::vector<ValueId> replacement(graph.values.size());
  for (size_t id = 0; id < replacement.size(); ++id) replacement[id] = static_cast<ValueId>(id);
  using Key = std::pair<std::string_view, std::vector<ValueId>>;
  std::multimap<Key, const GraphStep*> seen;
  std::deque<GraphStep> kept;  // `seen` points into it
  int merged = 0;
  for (GraphStep& step : graph.steps) {
    for (ValueId& id : step.inputs) id = replacement[id];
    const GraphStep* twin = nullptr;
    Key key{step.op->name(), step.inputs};
    if (!updates_something(step)) {
      auto [first, last] = seen.equal_range(key);
      for (auto it = first; it != last && twin == nullptr; ++it)
        if (it->second->device == step.device && step.op->same(*it->second->op)) twin = it->second;
    }
    if (twin != nullptr) {
      for (size_t o = 0; o < step.outputs.size(); ++o)
        replacement[step.outputs[o]] = twin->outputs[o];
      ++merged;
      continue;
    }
    kept.push_back(std::move(step));
    if (!updates_something(kept.back())) seen.emplace(std::move(key), &kept.back());
  }
  for (ValueId& id : graph.outputs) id = replacement[id];
  graph.steps = std::move(kept);
  graph.index();
  return merged;
}

}  // namespace tessera
