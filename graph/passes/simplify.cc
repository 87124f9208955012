// The passes that simplify, drop, merge and order nodes.
#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "tessera/graph/lifetimes.h"
#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"

namespace tessera {
namespace {

class Simplify {
 public:
  explicit Simplify(Graph& graph)
      : graph_(graph),
        roots_(graph.roots()),
        overwritten_(graph.values.size(), std::numeric_limits<int>::max()),
        reads_(graph.values.size(), 0),
        replacement_(graph.values.size(), -1) {
    for (const Value& value : graph.values)
      if (value.previous >= 0) overwritten_[value.previous] = value.producer;
    for (const Node& node : graph.nodes)
      for (const ValueId id : node.inputs) ++reads_[id];
    for (const ValueId id : graph.outputs) ++reads_[id];
  }

  int run() {
    for (int s = 0; s < static_cast<int>(graph_.nodes.size()); ++s) {
      Node& node = graph_.nodes[s];
      for (ValueId& id : node.inputs) {
        const ValueId other = replacement_[id];
        if (other >= 0 && readable(other, s)) read_instead(id, other);
      }
      if (node.is_update() || node.outputs.size() != 1) continue;
      while (simplify_op(node, s) || skip_a_producer(node, s)) {
      }
    }
    return fired_;
  }

 private:
  // Returns true if the value has not been overwritten when node s runs.
  bool readable(ValueId id, int s) const { return s <= overwritten_[roots_[id]]; }

  void read_instead(ValueId& id, ValueId other) {
    --reads_[id];
    ++reads_[other];
    id = other;
  }

  // Returns true if the node has a new op, which may be simplified in turn.
  bool simplify_op(Node& node, int s) {
    if (replacement_[node.outputs[0]] >= 0) return false;
    const auto simpler = node.op->simplified(graph_.input_specs(node));
    return simpler && take(node, s, *simpler, fused_inputs(*simpler, node, node));
  }

  bool skip_a_producer(Node& node, int s) {
    if (replacement_[node.outputs[0]] >= 0) return false;
    for (int i = 0; i < static_cast<int>(node.inputs.size()); ++i) {
      const ValueId id = node.inputs[i];
      const int made_by = graph_.values[id].producer;
      if (made_by < 0 || !skippable(id, node)) continue;
      const Node& producer = graph_.nodes[made_by];
      const auto joined = node.op->fuse_producer(*producer.op, i, graph_.input_specs(node),
                                                 graph_.input_specs(producer));
      if (joined && take(node, s, *joined, fused_inputs(*joined, node, producer))) return true;
    }
    return false;
  }

  // A value with other users would be kept in addition to the producer's input; a view needs no
  // memory.
  bool skippable(ValueId id, const Node& consumer) const {
    const Value& value = graph_.values[id];
    const Node& producer = graph_.nodes[value.producer];
    if (value.role != Role::intermediate || producer.outputs.size() != 1 || producer.is_update() ||
        producer.device != consumer.device)
      return false;
    return producer.op->view_of(0) >= 0 || (reads_[id] == 1 && producer.inputs.size() == 1);
  }

  bool take(Node& node, int s, const FusedOp& simpler, const std::vector<ValueId>& inputs) {
    if (!std::ranges::all_of(inputs, [&](ValueId id) { return readable(id, s); })) return false;
    const ValueId result = node.outputs[0];
    if (simpler.op == nullptr) {
      const bool handed_out = std::ranges::find(graph_.outputs, result) != graph_.outputs.end();
      if (handed_out || graph_.values[inputs[0]].spec != graph_.values[result].spec) return false;
      replacement_[result] = inputs[0];
      ++fired_;
      return false;
    }
    for (const ValueId id : node.inputs) --reads_[id];
    for (const ValueId id : inputs) ++reads_[id];
    node.op = simpler.op;
    node.inputs = inputs;
    if (node.op->view_of(0) >= 0) roots_[result] = roots_[inputs[node.op->view_of(0)]];
    ++fired_;
    return true;
  }

  Graph& graph_;
  std::vector<ValueId> roots_;
  std::vector<int> overwritten_;  // the node that overwrites each value
  std::vector<int> reads_;
  std::vector<ValueId> replacement_;  // the value with the same bits
  int fired_ = 0;
};

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

int simplify(Graph& graph) { return Simplify(graph).run(); }

int eliminate_dead_code(Graph& graph) {
  std::vector<bool> needed(graph.values.size(), false);
  for (ValueId id : graph.outputs) needed[id] = true;
  std::deque<Node> kept;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool live = node->is_update() ||
                      std::ranges::any_of(node->outputs, [&](ValueId id) { return needed[id]; });
    if (!live) continue;
    for (ValueId id : node->inputs) needed[id] = true;
    kept.push_back(std::move(*node));
  }
  int dropped = static_cast<int>(graph.nodes.size() - kept.size());
  graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  graph.index();
  return dropped;
}

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
        if (it->second->device == node.device && node.op->is_equivalent(*it->second->op))
          twin = it->second;
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
