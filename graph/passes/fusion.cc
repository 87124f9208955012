#include "tessera/graph/passes/fusion.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

// Bytes of made values that the producer reads last: folding it into a later node keeps them alive
// until then. Values that are no larger than a channel vector do not matter.
size_t bytes_kept_longer(const Graph& graph, const std::vector<std::vector<int>>& readers,
                         const FusionSite& site, size_t freed) {
  size_t bytes = 0;
  const auto& inputs = graph.nodes[site.producer].inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    ValueId id = inputs[i];
    if (std::find(inputs.begin(), inputs.begin() + static_cast<long>(i), id) !=
        inputs.begin() + static_cast<long>(i))
      continue;
    const Value& value = graph.values[id];
    if (value.role != Role::computed || value.spec.bytes() * 16 < freed) continue;
    if (readers[id].back() < site.consumer) bytes += value.spec.bytes();
  }
  return bytes;
}

// Whether all that the consumer reads besides is there when the producer runs.
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
    // A view of a persistent value is as old as that value.
    while (graph.values[id].role == Role::computed && graph.values[id].producer >= 0) {
      const Node& maker = graph.nodes[graph.values[id].producer];
      int view = maker.op == nullptr ? -1 : maker.op->views(graph.values[id].output);
      if (view < 0) break;
      id = maker.inputs[view];
    }
    if (!graph.values[id].persistent()) continue;
    for (int s = node + 1; s < later; ++s)
      for (ValueId made : graph.nodes[s].outputs)
        if (graph.values[made].previous == id) return true;
  }
  return false;
}

FusionSite fusion_site(const Graph& graph, const std::vector<std::vector<int>>& readers,
                       int consumer, int fused_input) {
  const Node& reader = graph.nodes[consumer];
  ValueId id = reader.inputs[fused_input];
  const Value& value = graph.values[id];
  if (value.role != Role::computed || value.producer < 0) return {};
  const Node& maker = graph.nodes[value.producer];
  if (maker.outputs.size() != 1 || maker.device != reader.device) return {};
  if (readers[id].size() != 1 || readers[id][0] != consumer) return {};
  if (std::count(reader.inputs.begin(), reader.inputs.end(), id) != 1) return {};
  if (value.spec != graph.values[reader.outputs[0]].spec) return {};
  FusionSite site{value.producer, consumer, fused_input, consumer};
  bool adjacent = consumer == site.producer + 1;
  size_t freed = value.spec.bytes();
  if ((adjacent || bytes_kept_longer(graph, readers, site, freed) <= freed) &&
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

void replace(Graph& graph, std::vector<std::vector<int>>& readers, const FusionSite& site, OpPtr op,
             std::vector<ValueId> inputs, std::string place) {
  Node& producer = graph.nodes[site.producer];
  Node& consumer = graph.nodes[site.consumer];
  auto forget = [&](const Node& node, int index) {
    for (ValueId id : node.inputs) std::erase(readers[id], index);
  };
  forget(producer, site.producer);
  forget(consumer, site.consumer);
  for (ValueId id : inputs) {
    auto at = std::lower_bound(readers[id].begin(), readers[id].end(), site.at);
    if (at == readers[id].end() || *at != site.at) readers[id].insert(at, site.at);
  }
  consumer.op = std::move(op);
  consumer.inputs = std::move(inputs);
  consumer.module_path = std::move(place);
  for (const ValueId id : consumer.outputs) graph.values[id].producer = site.at;
  producer = site.at == site.producer ? std::exchange(consumer, Node{}) : Node{};
}

std::string joined_place(const std::string& first, const std::string& second) {
  std::vector<std::string> places;
  const auto within = [](std::string_view inner, std::string_view outer) {
    return outer.empty() || inner == outer ||
           (inner.starts_with(outer) && inner[outer.size()] == '.');
  };
  for (const std::string& all : {first, second})
    for (size_t begin = 0, end = 0; end != all.npos; begin = end + 1) {
      end = all.find('+', begin);
      const std::string place = all.substr(begin, end - begin);
      if (std::any_of(places.begin(), places.end(),
                      [&](const std::string& other) { return within(other, place); }))
        continue;
      std::erase_if(places, [&](const std::string& other) { return within(place, other); });
      places.push_back(place);
    }
  std::string text;
  for (const std::string& place : places) text += (text.empty() ? "" : "+") + place;
  return text;
}

std::vector<ValueId> absorbed_inputs(const Absorbed& absorbed, const Node& absorbing,
                                     const Node& other) {
  std::vector<ValueId> inputs;
  for (const int from : absorbed.inputs)
    inputs.push_back(from >= 0 ? absorbing.inputs[from] : other.inputs[-1 - from]);
  return inputs;
}

void drop_emptied(Graph& graph) {
  std::erase_if(graph.nodes, [](const Node& node) { return node.op == nullptr; });
  graph.index();
}

}  // namespace tessera
