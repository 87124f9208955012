#include "tessera/graph/passes/fusion.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

// Returns the bytes of intermediate values whose last user is the producer: fusing it into a later
// node would extend their lifetime. Values no larger than a channel vector do not count.
size_t bytes_kept_longer(const Graph& graph, const std::vector<std::vector<int>>& users,
                         const FusionSite& site, size_t freed) {
  size_t bytes = 0;
  const auto& inputs = graph.nodes[site.producer].inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ValueId id = inputs[i];
    if (std::find(inputs.begin(), inputs.begin() + static_cast<long>(i), id) !=
        inputs.begin() + static_cast<long>(i))
      continue;
    const Value& value = graph.values[id];
    if (value.role != Role::intermediate || value.spec.bytes() * 16 < freed) continue;
    if (users[id].back() < site.consumer) bytes += value.spec.bytes();
  }
  return bytes;
}

// Returns true if all other inputs of the consumer exist when the producer runs.
bool ready_before(const Graph& graph, const FusionSite& site) {
  const auto& inputs = graph.nodes[site.consumer].inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (static_cast<int>(i) != site.fused_input &&
        graph.values[inputs[i]].producer >= site.producer)
      return false;
  return true;
}

}  // namespace

bool overwritten_between(const Graph& graph, int node, int later) {
  for (ValueId id : graph.nodes[node].inputs) {
    // A view of a persistent value has the version of that value.
    while (graph.values[id].role == Role::intermediate && graph.values[id].producer >= 0) {
      const Node& producer = graph.nodes[graph.values[id].producer];
      int view = producer.op == nullptr ? -1 : producer.op->view_of(graph.values[id].output);
      if (view < 0) break;
      id = producer.inputs[view];
    }
    if (!graph.values[id].persistent()) continue;
    for (int s = node + 1; s < later; ++s)
      for (ValueId made : graph.nodes[s].outputs)
        if (graph.values[made].previous == id) return true;
  }
  return false;
}

FusionSite fusion_site(const Graph& graph, const std::vector<std::vector<int>>& users, int consumer,
                       int fused_input) {
  const Node& consumer_node = graph.nodes[consumer];
  ValueId id = consumer_node.inputs[fused_input];
  const Value& value = graph.values[id];
  if (value.role != Role::intermediate || value.producer < 0) return {};
  const Node& producer = graph.nodes[value.producer];
  if (producer.outputs.size() != 1 || producer.device != consumer_node.device) return {};
  if (users[id].size() != 1 || users[id][0] != consumer) return {};
  if (std::count(consumer_node.inputs.begin(), consumer_node.inputs.end(), id) != 1) return {};
  if (value.spec.shape != graph.values[consumer_node.outputs[0]].spec.shape) return {};
  FusionSite site{value.producer, consumer, fused_input, consumer};
  bool adjacent = consumer == site.producer + 1;
  size_t freed = value.spec.bytes();
  if ((adjacent || bytes_kept_longer(graph, users, site, freed) <= freed) &&
      !overwritten_between(graph, site.producer, site.consumer))
    return site;
  site.at = site.producer;
  return ready_before(graph, site) ? site : FusionSite{};
}

std::vector<ValueId> fused_inputs(const Graph& graph, const FusionSite& site) {
  std::vector<ValueId> inputs = graph.nodes[site.producer].inputs;
  const std::vector<ValueId>& others = graph.nodes[site.consumer].inputs;
  for (size_t i = 0; i < others.size(); ++i)
    if (static_cast<int>(i) != site.fused_input) inputs.push_back(others[i]);
  return inputs;
}

void replace(Graph& graph, std::vector<std::vector<int>>& users, const FusionSite& site, OpPtr op,
             std::vector<ValueId> inputs, std::string module_path) {
  Node& producer = graph.nodes[site.producer];
  Node& consumer = graph.nodes[site.consumer];
  auto forget = [&](const Node& node, int index) {
    for (ValueId id : node.inputs) std::erase(users[id], index);
  };
  forget(producer, site.producer);
  forget(consumer, site.consumer);
  for (ValueId id : inputs) {
    auto at = std::lower_bound(users[id].begin(), users[id].end(), site.at);
    if (at == users[id].end() || *at != site.at) users[id].insert(at, site.at);
  }
  consumer.op = std::move(op);
  consumer.inputs = std::move(inputs);
  consumer.module_path = std::move(module_path);
  for (const ValueId id : consumer.outputs) graph.values[id].producer = site.at;
  producer = site.at == site.producer ? std::exchange(consumer, Node{}) : Node{};
}

std::string joined_module_path(const std::string& first, const std::string& second) {
  std::vector<std::string> module_paths;
  const auto within = [](std::string_view inner, std::string_view outer) {
    return outer.empty() || inner == outer ||
           (inner.starts_with(outer) && inner[outer.size()] == '.');
  };
  for (const std::string& all : {first, second})
    for (size_t begin = 0, end = 0; end != all.npos; begin = end + 1) {
      end = all.find('+', begin);
      const std::string module_path = all.substr(begin, end - begin);
      if (std::any_of(module_paths.begin(), module_paths.end(),
                      [&](const std::string& other) { return within(other, module_path); }))
        continue;
      std::erase_if(module_paths,
                    [&](const std::string& other) { return within(module_path, other); });
      module_paths.push_back(module_path);
    }
  std::string text;
  for (const std::string& module_path : module_paths)
    text += (text.empty() ? "" : "+") + module_path;
  return text;
}

std::vector<ValueId> fused_inputs(const FusedOp& fused, const Node& fused_consumers,
                                  const Node& other) {
  std::vector<ValueId> inputs;
  for (const int from : fused.inputs)
    inputs.push_back(from >= 0 ? fused_consumers.inputs[from] : other.inputs[-1 - from]);
  return inputs;
}

void erase_dead_nodes(Graph& graph) {
  std::erase_if(graph.nodes, [](const Node& node) { return node.op == nullptr; });
  graph.index();
}

}  // namespace tessera
