// The fusion passes: pointwise nodes with each other, as epilogues into their producer and as
// prologues into their users; small consumers into their producer.
#include "tessera/graph/passes/fusion.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "tessera/engine/pointwise.h"
#include "tessera/graph/passes/passes.h"
#include "tessera/runtime/context.h"

namespace tessera {
namespace {

// Returns true if fusing the producer into the later consumer keeps more bytes alive between them
// than the fused value has: intermediate values whose last user is the producer. Those no larger
// than a channel vector do not count.
bool keeps_more(const Graph& graph, const std::vector<std::vector<int>>& users,
                const FusionSite& site) {
  if (site.consumer == site.producer + 1) return false;
  const ValueId fused = graph.nodes[site.consumer].inputs[static_cast<size_t>(site.fused_input)];
  const size_t freed = graph.values[fused].spec.bytes();
  size_t bytes = 0;
  const std::vector<ValueId>& inputs = graph.nodes[site.producer].inputs;
  for (const ValueId id : std::set<ValueId>(inputs.begin(), inputs.end())) {
    const Value& value = graph.values[id];
    if (value.role != Role::intermediate || value.spec.bytes() * 16 < freed) continue;
    if (users[id].back() < site.consumer) bytes += value.spec.bytes();
  }
  return bytes > freed;
}

// Returns true if all inputs of a node except `but` exist before node `producer` runs.
bool ready_before(const Graph& graph, const Node& node, ValueId but, int producer) {
  return std::ranges::all_of(
      node.inputs, [&](ValueId id) { return id == but || graph.values[id].producer < producer; });
}

// Returns true if a persistent value that `node` reads is overwritten before `later` runs.
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

// Returns the inputs of the fused node: the producer's, then the consumer's without `fused_input`.
std::vector<ValueId> fused_inputs(const Node& producer, const Node& consumer, int fused_input) {
  std::vector<ValueId> inputs = producer.inputs;
  for (size_t i = 0; i < consumer.inputs.size(); ++i)
    if (static_cast<int>(i) != fused_input) inputs.push_back(consumer.inputs[i]);
  return inputs;
}

// Replaces the two nodes by `op` at site.at and updates `users`. `module_path` is that of the fused
// node.
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
    auto at = std::ranges::lower_bound(users[id], site.at);
    if (at == users[id].end() || *at != site.at) users[id].insert(at, site.at);
  }
  consumer.op = std::move(op);
  consumer.inputs = std::move(inputs);
  consumer.module_path = std::move(module_path);
  for (const ValueId id : consumer.outputs) graph.values[id].producer = site.at;
  producer = site.at == site.producer ? std::exchange(consumer, Node{}) : Node{};
}

// Limits of a fused node; more would evict the blocks it works on from the first-level cache.
constexpr int kMaxInputs = 12, kMaxRegisters = 28;

// Replaces both nodes by one that runs the joined program and reads each value once.
bool fuse_pointwise_at(Graph& graph, std::vector<std::vector<int>>& users, const FusionSite& site) {
  const Node& producer = graph.nodes[site.producer];
  const Node& consumer = graph.nodes[site.consumer];
  auto f = producer.op->pointwise(), g = consumer.op->pointwise();
  if (!f || !g || f->registers() + g->registers() > kMaxRegisters) return false;
  std::vector<ValueId> all = fused_inputs(producer, consumer, site.fused_input), distinct;
  std::vector<int> map;
  for (ValueId id : all) {
    auto at = std::ranges::find(distinct, id);
    map.push_back(static_cast<int>(at - distinct.begin()));
    if (at == distinct.end()) distinct.push_back(id);
  }
  if (distinct.size() > kMaxInputs) return false;
  ScalarProgram joined =
      rename_inputs(compose(*f, *g, site.fused_input), map, static_cast<int>(distinct.size()));
  const DType dtype = graph.values[consumer.outputs[0]].spec.dtype;
  if (SimplifiedProgram shorter = simplified(joined, dtype); shorter.changed && shorter.input < 0)
    joined = std::move(shorter.program);
  std::string name = std::string(producer.op->name()) + "+" + std::string(consumer.op->name());
  auto op = std::make_shared<Pointwise>(PointwiseParams{std::move(name), std::move(joined)});
  replace(graph, users, site, std::move(op), std::move(distinct),
          joined_module_path(producer.module_path, consumer.module_path));
  return true;
}

bool fuse_epilogue_at(Graph& graph, std::vector<std::vector<int>>& users, const FusionSite& site) {
  const Node &producer = graph.nodes[site.producer], &consumer = graph.nodes[site.consumer];
  if (producer.op->pointwise()) return false;
  const auto program = consumer.op->pointwise();
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

// A small value has at most 1 / kSmall of the bytes of another.
constexpr size_t kSmall = 16;

bool is_large(const Graph& graph, ValueId id, ValueId other) {
  return graph.values[id].spec.bytes() * kSmall > graph.values[other].spec.bytes();
}

bool fuse_consumer_at(Graph& graph, int consumer, int fused_input) {
  Node& node = graph.nodes[consumer];
  const ValueId id = node.inputs[fused_input];
  const Value& value = graph.values[id];
  if (value.producer < 0 || value.output != 0) return false;
  Node& producer = graph.nodes[value.producer];
  if (producer.op == nullptr || producer.device != node.device || node.is_update()) return false;
  if (std::ranges::count(node.inputs, id) != 1) return false;
  // Outputs of a fused consumer are live earlier, so they must be small.
  const auto large = [&](ValueId output) { return is_large(graph, output, id); };
  if (!ready_before(graph, node, id, value.producer) || std::ranges::any_of(node.outputs, large))
    return false;
  auto fused = producer.op->fuse_consumer(node.op, fused_input, graph.input_specs(producer),
                                          graph.input_specs(node));
  if (!fused) return false;
  producer.inputs = fused_inputs(*fused, producer, node);
  producer.op = std::move(fused->op);
  producer.outputs.insert(producer.outputs.end(), node.outputs.begin(), node.outputs.end());
  node = Node{};
  return true;
}

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
  if (std::ranges::count(node.inputs, id) != 1) return std::nullopt;
  const auto at = std::ranges::find(node.inputs, id) - node.inputs.begin();
  return node.op->fuse_prologue(*producer.op->pointwise(), static_cast<int>(at),
                                graph.input_specs(node), graph.input_specs(producer),
                                context(node.device).target());
}

int large_inputs(const Graph& graph, const Node& producer) {
  return static_cast<int>(std::ranges::count_if(
      producer.inputs, [&](ValueId input) { return is_large(graph, input, producer.outputs[0]); }));
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
  return std::ranges::all_of(node.inputs, [&](ValueId input) {
    return graph.values[input].role != Role::intermediate || users[input].back() >= step ||
           !is_large(graph, input, node.outputs[0]);
  });
}

bool fuse_chain_at(Graph& graph, const std::vector<std::vector<int>>& users, int consumer,
                   int fused_input) {
  Node& node = graph.nodes[consumer];
  const ValueId id = node.inputs[fused_input];
  if (!is_sole_user(graph, users, consumer, id)) return false;
  const int before = graph.values[id].producer;
  Node& producer = graph.nodes[before];
  if (keeps_more(graph, users, {before, consumer, fused_input, consumer}) ||
      overwritten_between(graph, before, consumer))
    return false;
  const auto fused =
      node.op->fuse_chain(producer.op, fused_input, graph.input_specs(node),
                          graph.input_specs(producer), context(node.device).target());
  if (!fused) return false;
  node.inputs = fused_inputs(*fused, node, producer);
  node.op = fused->op;
  node.module_path = joined_module_path(producer.module_path, node.module_path);
  producer = Node{};
  return true;
}

// Fuses each pointwise node s into the users that choose(users, node, s) returns, if all of these
// can be fused; drops the node if these are all of its users. Returns how many nodes were fused.
template <class Choose>
int fuse_prologues_into(Graph& graph, const Choose& choose) {
  auto users = graph.users();
  int fused = 0;
  for (int s = 0; s < std::ssize(graph.nodes); ++s) {
    Node& producer = graph.nodes[s];
    if (producer.op == nullptr || !producer.op->pointwise()) continue;
    const std::span<const int> chosen = choose(users, producer, s);
    const std::vector<FusedConsumer> all = fused_consumers(graph, s, chosen);
    if (all.empty()) continue;
    for (const FusedConsumer& consumer : all) {
      Node& node = graph.nodes[consumer.node];
      node.inputs = fused_inputs(consumer.fused, node, producer);
      node.op = consumer.fused.op;
    }
    if (chosen.size() == users[producer.outputs[0]].size()) producer = Node{};
    users = graph.users();
    ++fused;
  }
  erase_dead_nodes(graph);
  return fused;
}

}  // namespace

bool is_sole_user(const Graph& graph, const std::vector<std::vector<int>>& users, int consumer,
                  ValueId id) {
  const Value& value = graph.values[id];
  const Node& node = graph.nodes[consumer];
  if (value.role != Role::intermediate || value.producer < 0) return false;
  const Node& producer = graph.nodes[value.producer];
  return producer.outputs.size() == 1 && producer.device == node.device && users[id].size() == 1 &&
         users[id][0] == consumer && std::ranges::count(node.inputs, id) == 1;
}

FusionSite fusion_site(const Graph& graph, const std::vector<std::vector<int>>& users, int consumer,
                       int fused_input) {
  const Node& consumer_node = graph.nodes[consumer];
  ValueId id = consumer_node.inputs[fused_input];
  const Value& value = graph.values[id];
  if (!is_sole_user(graph, users, consumer, id)) return {};
  if (value.spec.shape != graph.values[consumer_node.outputs[0]].spec.shape) return {};
  FusionSite site{value.producer, consumer, fused_input, consumer};
  if (!keeps_more(graph, users, site) && !overwritten_between(graph, site.producer, site.consumer))
    return site;
  site.at = site.producer;
  return ready_before(graph, consumer_node, id, site.producer) ? site : FusionSite{};
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
      if (std::ranges::any_of(module_paths,
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

int fuse_pointwise(Graph& graph) {
  auto users = graph.users();
  return fuse_inputs(
      graph,
      [&](int s, int k) {
        if (!graph.nodes[s].op->pointwise()) return false;
        const FusionSite site = fusion_site(graph, users, s, k);
        return site.producer >= 0 && fuse_pointwise_at(graph, users, site);
      },
      true);
}

int fuse_epilogues(Graph& graph) {
  auto users = graph.users();
  return fuse_inputs(graph, [&](int s, int k) {
    if (!graph.nodes[s].op->pointwise()) return false;
    const FusionSite site = fusion_site(graph, users, s, k);
    return site.producer >= 0 && fuse_epilogue_at(graph, users, site);
  });
}

int fuse_consumers(Graph& graph) {
  return fuse_inputs(graph, [&](int s, int k) { return fuse_consumer_at(graph, s, k); });
}

int fuse_chains(Graph& graph) {
  const auto users = graph.users();
  return fuse_inputs(graph, [&](int s, int k) { return fuse_chain_at(graph, users, s, k); });
}

// Reading more than one large value instead of one would take longer. Fuses into all users or none:
// while one user is left, the value is in memory anyway.
int fuse_prologues(Graph& graph) {
  return fuse_prologues_into(
      graph, [&](const auto& users, const Node& producer, int) -> std::span<const int> {
        const std::vector<int>& all = users[producer.outputs[0]];
        if (large_inputs(graph, producer) != 1 || (all.size() > 2 && only_rounds(producer)))
          return {};
        return all;
      });
}

int fuse_late_prologues(Graph& graph) {
  return fuse_prologues_into(
      graph, [&](const auto& users, const Node& producer, int s) -> std::span<const int> {
        const auto last = late(users[producer.outputs[0]], s, static_cast<int>(graph.nodes.size()));
        if (last.empty() || !is_kept(graph, users, producer, last.back())) return {};
        return last;
      });
}

}  // namespace tessera
