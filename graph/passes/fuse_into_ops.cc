// Fuses pointwise nodes into the ops beside them: into the one that they read, small ones into it
// early, and into all that read them.
#include <algorithm>
#include <span>

#include "tessera/graph/passes/fusion.h"
#include "tessera/graph/passes/passes.h"
#include "tessera/runtime/context.h"

namespace tessera {
namespace {

bool fuse_at(Graph& graph, std::vector<std::vector<int>>& readers, const FusionSite& site) {
  const Node& producer = graph.nodes[site.producer];
  const Node& consumer = graph.nodes[site.consumer];
  auto program = consumer.op->pointwise();
  auto absorbed = producer.op->absorb_epilogue(
      *program, site.fused_input, graph.input_specs(producer), graph.input_specs(consumer));
  if (!absorbed) return false;
  std::vector<ValueId> inputs = absorbed_inputs(*absorbed, producer, consumer);
  // The one that absorbs does most of the work of both.
  std::string place = producer.module_path.empty() ? consumer.module_path : producer.module_path;
  replace(graph, readers, site, absorbed->op, std::move(inputs), std::move(place));
  return true;
}

}  // namespace

int fuse_epilogues(Graph& graph) {
  auto readers = graph.readers();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s) {
    const Node& node = graph.nodes[s];
    if (node.op == nullptr || !node.op->pointwise()) continue;
    for (int fused_input = 0; fused_input < static_cast<int>(node.inputs.size()); ++fused_input) {
      FusionSite site = fusion_site(graph, readers, s, fused_input);
      if (site.producer < 0 || graph.nodes[site.producer].op->pointwise()) continue;
      if (fuse_at(graph, readers, site)) {
        ++fused;
        break;
      }
    }
  }
  drop_emptied(graph);
  return fused;
}

namespace {

// Outputs of a reader are there early; they must be small against what it reads.
constexpr size_t kTimesSmaller = 16;

// Whether all inputs of a node but one are there before node `maker` runs.
bool ready_before(const Graph& graph, const Node& node, ValueId but, int maker) {
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId id) { return id == but || graph.values[id].producer < maker; });
}

bool small(const Graph& graph, const Node& node, ValueId read) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
    return graph.values[id].spec.bytes() * kTimesSmaller <= graph.values[read].spec.bytes();
  });
}

bool fuse_readers_at(Graph& graph, int reader, int fused_input) {
  Node& node = graph.nodes[reader];
  const ValueId id = node.inputs[fused_input];
  const Value& value = graph.values[id];
  if (value.producer < 0 || value.output != 0) return false;
  Node& maker = graph.nodes[value.producer];
  if (maker.op == nullptr || maker.device != node.device || node.is_update()) return false;
  if (std::count(node.inputs.begin(), node.inputs.end(), id) != 1) return false;
  if (!ready_before(graph, node, id, value.producer) || !small(graph, node, id)) return false;
  auto absorbed = maker.op->absorb_reader(node.op, fused_input, graph.input_specs(maker),
                                          graph.input_specs(node));
  if (!absorbed) return false;
  maker.inputs = absorbed_inputs(*absorbed, maker, node);
  maker.op = std::move(absorbed->op);
  maker.outputs.insert(maker.outputs.end(), node.outputs.begin(), node.outputs.end());
  node = Node{};
  return true;
}

}  // namespace

int fuse_readers(Graph& graph) {
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s)
    for (int k = 0; k < static_cast<int>(graph.nodes[s].inputs.size()); ++k)
      if (fuse_readers_at(graph, s, k)) {
        ++fused;
        break;
      }
  drop_emptied(graph);
  return fused;
}

namespace {

// The readers of what a pointwise node makes, each with that node's program in it.
struct Absorbing {
  int node;
  Absorbed absorbed;
};

// What a reader becomes, or nothing where it cannot apply the program itself.
std::optional<Absorbed> absorbed_by(const Graph& graph, const Node& maker, int reader) {
  const Node& node = graph.nodes[reader];
  const ValueId id = maker.outputs[0];
  if (node.device != maker.device) return std::nullopt;
  if (std::count(node.inputs.begin(), node.inputs.end(), id) != 1) return std::nullopt;
  const auto at = std::find(node.inputs.begin(), node.inputs.end(), id) - node.inputs.begin();
  return node.op->absorb_prologue(*maker.op->pointwise(), static_cast<int>(at),
                                  graph.input_specs(node), graph.input_specs(maker),
                                  context(node.device).target());
}

// A small input has this part of the elements, or less.
constexpr size_t kSmall = 16;

bool is_large(const Graph& graph, ValueId input, ValueId made) {
  return graph.values[input].spec.bytes() * kSmall > graph.values[made].spec.bytes();
}

int large_inputs(const Graph& graph, const Node& maker) {
  return static_cast<int>(
      std::count_if(maker.inputs.begin(), maker.inputs.end(),
                    [&](ValueId input) { return is_large(graph, input, maker.outputs[0]); }));
}

// Some readers with the program in them, all or none.
std::vector<Absorbing> absorbing(const Graph& graph, int maker, std::span<const int> readers) {
  std::vector<Absorbing> all;
  for (const int reader : readers) {
    if (reader == static_cast<int>(graph.nodes.size())) return {};
    if (overwritten_between(graph, maker, reader)) return {};
    auto absorbed = absorbed_by(graph, graph.nodes[maker], reader);
    if (!absorbed) return {};
    all.push_back({reader, std::move(*absorbed)});
  }
  return all;
}

void absorb(Graph& graph, const Node& maker, const std::vector<Absorbing>& all) {
  for (const Absorbing& reader : all) {
    Node& node = graph.nodes[reader.node];
    node.inputs = absorbed_inputs(reader.absorbed, node, maker);
    node.op = reader.absorbed.op;
  }
}

// The readers after the longest time in which nobody reads the value, if that is a part of the
// program.
constexpr int kLong = 16;

std::span<const int> late(const std::vector<int>& readers, int maker, int steps) {
  size_t first = 0;
  int longest = 0;
  for (size_t i = 0; i < readers.size(); ++i) {
    const int waited = readers[i] - (i == 0 ? maker : readers[i - 1]);
    if (waited > longest) longest = waited, first = i;
  }
  if (longest * kLong < steps) return {};
  return std::span(readers).subspan(first);
}

// Whether all that the node reads is there at `step`, or is small.
bool is_kept(const Graph& graph, const std::vector<std::vector<int>>& readers, const Node& node,
             int step) {
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
    return graph.values[input].role != Role::computed || readers[input].back() >= step ||
           !is_large(graph, input, node.outputs[0]);
  });
}

}  // namespace

// All readers or none: as long as one is left, the value is in memory anyway. To read more than
// one large value instead of one would take longer.
int fuse_prologues(Graph& graph) {
  const auto readers = graph.readers();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s) {
    Node& maker = graph.nodes[s];
    if (maker.op == nullptr || !maker.op->pointwise() || large_inputs(graph, maker) != 1) continue;
    const std::vector<Absorbing> all = absorbing(graph, s, readers[maker.outputs[0]]);
    if (all.empty()) continue;
    absorb(graph, maker, all);
    maker = Node{};
    ++fused;
  }
  drop_emptied(graph);
  return fused;
}

int fuse_late_prologues(Graph& graph) {
  auto readers = graph.readers();
  int fused = 0;
  for (int s = 0; s < static_cast<int>(graph.nodes.size()); ++s) {
    Node& maker = graph.nodes[s];
    if (maker.op == nullptr || !maker.op->pointwise()) continue;
    const auto last = late(readers[maker.outputs[0]], s, static_cast<int>(graph.nodes.size()));
    if (last.empty() || !is_kept(graph, readers, maker, last.back())) continue;
    const std::vector<Absorbing> all = absorbing(graph, s, last);
    if (all.empty()) continue;
    absorb(graph, maker, all);
    if (last.size() == readers[maker.outputs[0]].size()) maker = Node{};
    readers = graph.readers();
    ++fused;
  }
  drop_emptied(graph);
  return fused;
}

}  // namespace tessera
