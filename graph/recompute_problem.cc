#include "tessera/graph/recompute_problem.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/graph/passes/recompute.h"
#include "tessera/runtime/context.h"

namespace tessera {
namespace {

class Builder {
 public:
  Builder(const Graph& graph, const std::vector<int64_t>& scratch_bytes, Device device, bool reuse,
          const StepCosts& costs)
      : graph_(graph),
        scratch_bytes_(scratch_bytes),
        device_(device),
        reuse_(reuse),
        costs_(costs),
        roots_(graph.roots()),
        handed_out_(graph.values.size(), false) {
    for (const ValueId id : graph.outputs) handed_out_[roots_[id]] = true;
  }

  ProgramSteps build() {
    add_values();
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (!only_views(graph_.nodes[n])) add_step(static_cast<int>(n));
    keep_what_has_views_among_results();
    return std::move(result_);
  }

 private:
  int64_t aligned(int64_t bytes) const {
    return static_cast<int64_t>(
        round_to_alignment(static_cast<size_t>(bytes), alignment_of(device_)));
  }

  bool in_arena(ValueId root) const {
    const Value& value = graph_.values[root];
    return value.role == Role::computed && value.producer >= 0 && !handed_out_[root] &&
           value.spec.device == device_;
  }

  void add_values() {
    value_of_.assign(graph_.values.size(), -1);
    for (ValueId id = 0; id < std::ssize(graph_.values); ++id) {
      if (roots_[id] != id) continue;
      value_of_[id] = static_cast<int>(result_.problem.values.size());
      result_.values.push_back(id);
      RecomputeValue value;
      if (in_arena(id)) value.bytes = aligned(static_cast<int64_t>(graph_.values[id].spec.bytes()));
      value.result = handed_out_[id];
      value.id = fmt::format("%{}", id);
      result_.problem.values.push_back(std::move(value));
    }
  }

  void add_step(int n) {
    const Node& node = graph_.nodes[n];
    RecomputeStep step;
    step.cost = costs_.nanoseconds(graph_, node);
    step.cheap = CountedCosts::moves_bytes(node.op->cost(graph_.input_specs(node)));
    if (node.device == device_) step.scratch = aligned(scratch_bytes_[n]);
    for (const ValueId id : node.inputs) add_once(step.reads, value_of_[roots_[id]]);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId id = node.outputs[o];
      if (roots_[id] != id) {
        step.again = false;
        continue;
      }
      step.makes.push_back(value_of_[id]);
      // A result has one place in the slots; the update of a parameter is not to be repeated.
      if (graph_.values[id].role != Role::computed || handed_out_[id]) step.again = false;
      if (const int updated = node.op->updates(static_cast<int>(o)); updated >= 0)
        add_once(step.overwrites, value_of_[roots_[node.inputs[updated]]]);
      if (reuse_ && in_arena(id)) add_takes(node, static_cast<int>(o));
    }
    step.id = fmt::format("{}:{}", n, node.op->name());
    if (!node.module_path.empty()) step.id += ":" + node.module_path;
    result_.nodes.push_back(n);
    result_.problem.steps.push_back(std::move(step));
  }

  // As lifetimes() has it: a block of the same size, that is not read as something else as well.
  void add_takes(const Node& node, int o) {
    const ValueId made = node.outputs[o];
    RecomputeValue& value = result_.problem.values[value_of_[made]];
    const size_t bytes = graph_.values[made].spec.bytes();
    const uint32_t allowed = node.op->may_reuse(o);
    for (size_t k = 0; k < node.inputs.size() && k < 32; ++k) {
      const ValueId id = node.inputs[k], root = roots_[id];
      if ((allowed >> k & 1) == 0 || !in_arena(root)) continue;
      if (graph_.values[id].spec.bytes() != bytes || graph_.values[root].spec.bytes() != bytes)
        continue;
      const bool shared = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId other) {
        return other != id && roots_[other] == root;
      });
      if (!shared) add_once(value.may_take, value_of_[root]);
    }
  }

  // A node that makes a view beside something else runs once, and so does what makes its whole: a
  // view of a new copy could not be made without it.
  void keep_what_has_views_among_results() {
    std::vector<char> whole(result_.problem.values.size(), 0);
    for (const int n : result_.nodes)
      for (const ValueId id : graph_.nodes[n].outputs)
        if (roots_[id] != id) whole[value_of_[roots_[id]]] = 1;
    for (RecomputeStep& step : result_.problem.steps)
      for (const int value : step.makes)
        if (whole[value]) step.again = false;
  }

  static void add_once(std::vector<int>& list, int item) {
    if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
  }

  const Graph& graph_;
  const std::vector<int64_t>& scratch_bytes_;
  const Device device_;
  const bool reuse_;
  const StepCosts& costs_;
  const std::vector<ValueId> roots_;
  std::vector<bool> handed_out_;  // of each root
  std::vector<int> value_of_;     // of each root: its number in the problem
  ProgramSteps result_;
};

}  // namespace

ProgramSteps recompute_problem(const Graph& graph, const std::vector<int64_t>& scratch_bytes,
                               Device device, bool reuse, const StepCosts& costs) {
  return Builder(graph, scratch_bytes, device, reuse, costs).build();
}

}  // namespace tessera
