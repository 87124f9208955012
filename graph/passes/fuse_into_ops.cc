// Fusion of nodes into other ops: pointwise nodes as epilogues into their producer, small consumers
// into their producer, and pointwise nodes as prologues into all their users.
#include <algorithm>
#include <span>

#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"
#include "tessera/runtime/context.h"

namespace tessera {
namespace {

bool fuse_at(Graph& graph, std::vector<std::vector<int>>& users, const FusionSite& site) {
  const Node& producer = graph.nodes[site.producer];
  const Node& consumer = graph.nodes[site.consumer];
  auto program = consumer.op->pointwise();
  auto fused = producer.op->fuse_epilogue(*program, site.fused_input, graph.input_specs(producer),
                                          graph.input_specs(consumer));
  if (!fused) return false;
  std::vector<ValueId> inputs = fused_inputs(*fused, producer, consumer);
  // The producer does most of the work of both.
  std::string module_path =
      producer.module_path.empty() ? consumer.module_path : producer.module_path;
  replace(graph, users, site, fused->op, std::move(inputs), std::move(module_path));
  return true;
}

}  // namespace

int fuse_epilogues(Graph& graph) {
  auto users = graph.users();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s) {
    const Node& node = graph.nodes[s];
    if (node.op == nullptr || !node.op->pointwise()) continue;
    for (int fused_input = 0; fused_input < static_cast<int>(node.inputs.size()); ++fused_input) {
      FusionSite site = fusion_site(graph, users, s, fused_input);
      if (site.producer < 0 || graph.nodes[site.producer].op->pointwise()) continue;
      if (fuse_at(graph, users, site)) {
        ++fused;
        break;
      }
    }
  }
  erase_dead_nodes(graph);
  return fused;
}

namespace {

// Outputs of a fused consumer are live earlier, so they must be smaller than its input by this
// factor.
constexpr size_t kTimesSmaller = 16;

// Returns true if all inputs of a node except `but` exist before node `producer` runs.
bool ready_before(const Graph& graph, const Node& node, ValueId but, int producer) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return id == but || graph.values[id].producer < producer; });
}

bool small(const Graph& graph, const Node& node, ValueId read) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
    return graph.values[id].spec.bytes() * kTimesSmaller <= graph.values[read].spec.bytes();
  });
}

bool fuse_consumers_at(Graph& graph, int consumer, int fused_input) {
  Node& node = graph.nodes[consumer];
  const ValueId id = node.inputs[fused_input];
  const Value& value = graph.values[id];
  if (value.producer < 0 || value.output != 0) return false;
  Node& producer = graph.nodes[value.producer];
  if (producer.op == nullptr || producer.device != node.device || node.is_update()) return false;
  if (std::count(node.inputs.begin(), node.inputs.end(), id) != 1) return false;
  if (!ready_before(graph, node, id, value.producer) || !small(graph, node, id)) return false;
  auto fused = producer.op->fuse_consumer(node.op, fused_input, graph.input_specs(producer),
                                          graph.input_specs(node));
  if (!fused) return false;
  producer.inputs = fused_inputs(*fused, producer, node);
  producer.op = std::move(fused->op);
  producer.outputs.insert(producer.outputs.end(), node.outputs.begin(), node.outputs.end());
  node = Node{};
  return true;
}

}  // namespace

int fuse_consumers(Graph& graph) {
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s)
    for (int k = 0; k < static_cast<int>(graph.nodes[s].inputs.size()); ++k)
      if (fuse_consumers_at(graph, s, k)) {
        ++fused;
        break;
      }
  erase_dead_nodes(graph);
  return fused;
}

namespace {

// A user of a pointwise node, with that node's program fused into it.
struct FusedConsumer {
  int node;
  FusedOp fused;
};

// Returns the fused op of a user; nullopt if it cannot apply the program itself.
std::optional<FusedOp> fused_into(const Graph& graph, const Node& producer, int consumer) {
  const Node& node = graph.nodes[consumer];
  const ValueId id = producer.outputs[0];
  if (node.device != producer.device) return std::nullopt;
  if (std::count(node.inputs.begin(), node.inputs.end(), id) != 1) return std::nullopt;
  const auto at = std::find(node.inputs.begin(), node.inputs.end(), id) - node.inputs.begin();
  return node.op->fuse_prologue(*producer.op->pointwise(), static_cast<int>(at),
                                graph.input_specs(node), graph.input_specs(producer),
                                context(node.device).target());
}

// A small input has at most 1 / kSmall of the bytes of the result.
constexpr size_t kSmall = 16;

bool is_large(const Graph& graph, ValueId input, ValueId made) {
  return graph.values[input].spec.bytes() * kSmall > graph.values[made].spec.bytes();
}

int large_inputs(const Graph& graph, const Node& producer) {
  return static_cast<int>(
      std::count_if(producer.inputs.begin(), producer.inputs.end(),
                    [&](ValueId input) { return is_large(graph, input, producer.outputs[0]); }));
}

// Returns the given users with the program fused into each; empty unless all can be fused.
std::vector<FusedConsumer> fused_consumers(const Graph& graph, int producer,
                                           std::span<const int> users) {
  std::vector<FusedConsumer> all;
  for (const int consumer : users) {
    if (consumer == static_cast<int>(graph.nodes.size())) return {};
    if (overwritten_between(graph, producer, consumer)) return {};
    auto fused = fused_into(graph, graph.nodes[producer], consumer);
    if (!fused) return {};
    all.push_back({consumer, std::move(*fused)});
  }
  return all;
}

void fuse_all(Graph& graph, const Node& producer, const std::vector<FusedConsumer>& all) {
  for (const FusedConsumer& consumer : all) {
    Node& node = graph.nodes[consumer.node];
    node.inputs = fused_inputs(consumer.fused, node, producer);
    node.op = consumer.fused.op;
  }
}

// Returns the users after the longest gap without a use of the value; empty if the gap is shorter
// than 1 / kLong of the program.
constexpr int kLong = 16;

std::span<const int> late(const std::vector<int>& users, int producer, int steps) {
  size_t first = 0;
  int longest = 0;
  for (size_t i = 0; i < users.size(); ++i) {
    const int waited = users[i] - (i == 0 ? producer : users[i - 1]);
    if (waited > longest) longest = waited, first = i;
  }
  if (longest * kLong < steps) return {};
  return std::span(users).subspan(first);
}

// Returns whether a node is a cast to 16 bits. One that more than two nodes read, as filters of
// several parts of a batch, is cheaper to keep.
bool only_rounds(const Node& node) {
  const std::optional<ScalarProgram> p = node.op->pointwise();
  return p->code.size() == 1 && is_half(result_type(*p, DType::f32));
}

// Returns true if each input of the node is small or live until node `step`.
bool is_kept(const Graph& graph, const std::vector<std::vector<int>>& users, const Node& node,
             int step) {
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    return graph.values[input].role != Role::intermediate || users[input].back() >= step ||
           !is_large(graph, input, node.outputs[0]);
  });
}

}  // namespace

// Fuses into all users or none: while one user is left, the value is in memory anyway. Reading more
// than one large value instead of one would take longer.
int fuse_prologues(Graph& graph) {
  const auto users = graph.users();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s) {
    Node& producer = graph.nodes[s];
    if (producer.op == nullptr || !producer.op->pointwise() || large_inputs(graph, producer) != 1)
      continue;
    if (users[producer.outputs[0]].size() > 2 && only_rounds(producer)) continue;
    const std::vector<FusedConsumer> all = fused_consumers(graph, s, users[producer.outputs[0]]);
    if (all.empty()) continue;
    fuse_all(graph, producer, all);
    producer = Node{};
    ++fused;
  }
  erase_dead_nodes(graph);
  return fused;
}

int fuse_late_prologues(Graph& graph) {
  auto users = graph.users();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s) {
    Node& producer = graph.nodes[s];
    if (producer.op == nullptr || !producer.op->pointwise()) continue;
    const auto last = late(users[producer.outputs[0]], s, static_cast<int>(graph.nodes.size()));
    if (last.empty() || !is_kept(graph, users, producer, last.back())) continue;
    const std::vector<FusedConsumer> all = fused_consumers(graph, s, last);
    if (all.empty()) continue;
    fuse_all(graph, producer, all);
    if (last.size() == users[producer.outputs[0]].size()) producer = Node{};
    users = graph.users();
    ++fused;
  }
  erase_dead_nodes(graph);
  return fused;
}

}  // namespace tessera
