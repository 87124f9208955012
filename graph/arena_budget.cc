#include "tessera/graph/arena_budget.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/graph/lifetimes.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {
namespace {

class ProblemBuilder {
 public:
  ProblemBuilder(const Graph& graph, const std::vector<int64_t>& scratch_bytes, Device device,
                 bool reuse, const CostModel& costs)
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
      if (!graph_.nodes[n].only_views()) add_step(static_cast<int>(n));
    run_once();
    return std::move(result_);
  }

 private:
  int64_t aligned(int64_t bytes) const {
    return static_cast<int64_t>(
        round_to_alignment(static_cast<size_t>(bytes), alignment_of(device_)));
  }

  bool in_arena(ValueId root) const {
    const Value& value = graph_.values[root];
    return value.role == Role::intermediate && value.producer >= 0 && !handed_out_[root] &&
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
    step.cheap = RooflineCosts::moves_bytes(node.op->cost(graph_.input_specs(node)));
    if (node.device == device_) step.scratch = aligned(scratch_bytes_[n]);
    for (const ValueId id : node.inputs) add_once(step.reads, value_of_[roots_[id]]);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId id = node.outputs[o];
      // A result has one place in the slots; an update of a parameter must not be repeated.
      if (roots_[id] != id || graph_.values[id].role != Role::intermediate || handed_out_[id])
        step.recomputable = false;
      if (roots_[id] != id) continue;
      step.makes.push_back(value_of_[id]);
      if (const int updated = node.op->updates(static_cast<int>(o)); updated >= 0)
        add_once(step.overwrites, value_of_[roots_[node.inputs[updated]]]);
      if (reuse_ && in_arena(id)) add_takes(node, static_cast<int>(o));
    }
    step.id = fmt::format("{}:{}", n, node.op->name());
    if (!node.module_path.empty()) step.id += ":" + node.module_path;
    result_.nodes.push_back(n);
    result_.problem.steps.push_back(std::move(step));
  }

  // Adds the blocks that lifetimes() allows it to reuse: of the same size, and read by the node as
  // one value only.
  void add_takes(const Node& node, int o) {
    const ValueId made = node.outputs[o];
    RecomputeValue& value = result_.problem.values[value_of_[made]];
    const size_t bytes = graph_.values[made].spec.bytes();
    const uint32_t allowed = node.op->may_reuse(o);
    for (size_t k = 0; k < node.inputs.size() && k < 32; ++k) {
      const ValueId id = node.inputs[k], root = roots_[id];
      if ((allowed >> k & 1) == 0 || !in_arena(root)) continue;
      if (graph_.values[id].spec.bytes() != bytes || graph_.values[root].spec.bytes() != bytes ||
          !same_width(graph_.values[id], graph_.values[made]))
        continue;
      const bool shared = std::ranges::any_of(
          node.inputs, [&](ValueId other) { return other != id && roots_[other] == root; });
      if (!shared) add_once(value.may_reuse, value_of_[root]);
    }
  }

  // Excludes nodes that must not run again. A node that makes a view and another output runs once,
  // as does the producer of the viewed value: a view of its new copy could not be made without
  // running that node again. So do asynchronous ops, and the producers of what they read.
  void run_once() {
    std::vector<char> whole(result_.problem.values.size(), 0);
    for (const int n : result_.nodes) {
      const Node& node = graph_.nodes[n];
      const bool keeps = node.op->is_asynchronous();
      for (const ValueId id : node.outputs)
        if (keeps || roots_[id] != id) whole[value_of_[roots_[id]]] = 1;
      if (!keeps) continue;
      for (const ValueId id : node.inputs) whole[value_of_[roots_[id]]] = 1;
    }
    for (RecomputeStep& step : result_.problem.steps)
      for (const int value : step.makes)
        if (whole[value]) step.recomputable = false;
  }

  static void add_once(std::vector<int>& list, int item) {
    if (std::ranges::find(list, item) == list.end()) list.push_back(item);
  }

  const Graph& graph_;
  const std::vector<int64_t>& scratch_bytes_;
  const Device device_;
  const bool reuse_;
  const CostModel& costs_;
  const std::vector<ValueId> roots_;
  std::vector<bool> handed_out_;  // for each root
  std::vector<int> value_of_;     // for each root: its number in the problem
  ProgramSteps result_;
};

// Times in nanoseconds.
struct Roofline {
  explicit Roofline(const Cost& cost)
      : computing(static_cast<double>(cost.flops) / RooflineCosts::kFlopsPerNs),
        moving((static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written)) /
               RooflineCosts::kBytesPerNs) {}
  double computing, moving;
};

class Repeater {
 public:
  explicit Repeater(const Graph& graph)
      : graph_(graph), ran_(graph.nodes.size(), false), views_(graph.nodes.size()) {
    result_.graph.values = graph.values;
    result_.graph.inputs = graph.inputs;
    result_.graph.saved = graph.saved;
    for (size_t id = 0; id < graph.values.size(); ++id)
      current_.push_back(static_cast<ValueId>(id));
  }

  void run(int n) {
    const Node& node = graph_.nodes[n];
    emit(n, current(node.inputs));
    for (size_t o = 0; o < node.outputs.size(); ++o)
      current_[node.outputs[o]] = result_.graph.nodes.back().outputs[o];
  }

  Repeated finish() {
    result_.graph.outputs = current(graph_.outputs);
    result_.graph.index();
    return std::move(result_);
  }

 private:
  std::vector<ValueId> current(const std::vector<ValueId>& ids) {
    std::vector<ValueId> result;
    for (const ValueId id : ids) result.push_back(current(id));
    return result;
  }

  // Returns the latest copy of a value. Makes a view of a new copy on first use.
  ValueId current(ValueId id) {
    const int n = graph_.values[id].producer;
    if (n < 0 || !graph_.nodes[n].only_views()) return current_[id];
    const std::vector<ValueId> inputs = current(graph_.nodes[n].inputs);
    View& view = views_[n];
    if (!ran_[n] || view.inputs != inputs) {
      emit(n, inputs);
      view = {inputs, result_.graph.nodes.back().outputs};
    }
    return view.outputs[graph_.values[id].output];
  }

  void emit(int n, std::vector<ValueId> inputs) {
    Node node = graph_.nodes[n];
    node.inputs = std::move(inputs);
    node.recomputed = ran_[n];
    if (node.recomputed)
      for (ValueId& id : node.outputs) {
        result_.graph.values.push_back(graph_.values[id]);
        id = static_cast<ValueId>(result_.graph.values.size() - 1);
      }
    ran_[n] = true;
    result_.origin.push_back(n);
    result_.graph.nodes.push_back(std::move(node));
  }

  // The latest run of a node that makes views.
  struct View {
    std::vector<ValueId> inputs, outputs;
  };

  const Graph& graph_;
  std::vector<bool> ran_;
  std::vector<View> views_;
  std::vector<ValueId> current_;  // for each value that is not a view
  Repeated result_;
};

}  // namespace

int64_t RooflineCosts::nanoseconds(const Graph& graph, const Node& node) const {
  Cost cost = node.op->cost(graph.input_specs(node));
  // An input that the node reads a second time is in the cache by then.
  for (auto input = node.inputs.begin(); input != node.inputs.end(); ++input)
    if (std::find(node.inputs.begin(), input, *input) != input)
      cost.bytes_read -=
          std::min(cost.bytes_read, static_cast<int64_t>(graph.values[*input].spec.bytes()));
  return nanoseconds(cost);
}

int64_t RooflineCosts::nanoseconds(const Cost& cost) const {
  const Roofline roofline(cost);
  return kNsPerStep + std::llround(std::max(roofline.computing, roofline.moving));
}

bool RooflineCosts::moves_bytes(const Cost& cost) {
  const Roofline roofline(cost);
  return roofline.computing <= roofline.moving;
}

ProgramSteps recompute_problem(const Graph& graph, const std::vector<int64_t>& scratch_bytes,
                               Device device, bool reuse, const CostModel& costs) {
  return ProblemBuilder(graph, scratch_bytes, device, reuse, costs).build();
}

ArenaBudget::ArenaBudget(const Graph& graph, const std::vector<int64_t>& scratch_bytes,
                         Device device, bool reuse, const Planner& planner,
                         const RecomputeStrategy& strategy, const CostModel& costs)
    : graph_(graph),
      scratch_bytes_(scratch_bytes),
      device_(device),
      reuse_(reuse),
      planner_(planner),
      steps_(recompute_problem(graph, scratch_bytes, device, reuse, costs)) {
  const RecomputeProblem& problem = steps_.problem;
  const auto add = [&](StepSequence runs) {
    if (const auto measured = measure(problem, runs))
      candidates_.push_back({std::move(runs), measured->peak, measured->cost});
  };
  add(once_each(problem));
  for (StepSequence& runs : strategy.candidates(problem)) add(std::move(runs));
  std::ranges::stable_sort(candidates_, {},
                           [](const Candidate& c) { return std::pair(c.cost, c.live); });
  for (size_t i = 0; i < candidates_.size(); ++i)
    if (candidates_[i].runs.size() == problem.steps.size()) plain_ = i;
}

Repeated ArenaBudget::graph_of(const Candidate& candidate) const {
  std::vector<int> nodes;
  for (const int step : candidate.runs) nodes.push_back(steps_.nodes[step]);
  return repeat_nodes(graph_, nodes);
}

int64_t ArenaBudget::arena_of(Candidate& candidate) {
  if (candidate.arena >= 0) return candidate.arena;
  const Repeated repeated = graph_of(candidate);
  std::vector<int64_t> scratch;
  for (const int node : repeated.origin) scratch.push_back(scratch_bytes_[node]);
  const Problem problem = lifetimes(repeated.graph, scratch, reuse_).problem(nullptr, device_);
  candidate.arena = planner_.solve(problem).bytes;
  return candidate.arena;
}

const ArenaBudget::Candidate* ArenaBudget::within(int64_t budget) {
  for (Candidate& candidate : candidates_)
    if (candidate.live <= budget && arena_of(candidate) <= budget) return &candidate;
  return nullptr;
}

const ArenaBudget::Candidate& ArenaBudget::lowest(int64_t extra) {
  std::vector<Candidate*> by_live;
  for (Candidate& candidate : candidates_)
    if (candidate.cost - candidates_[plain_].cost <= extra) by_live.push_back(&candidate);
  std::ranges::stable_sort(by_live, {}, &Candidate::live);
  Candidate* lowest = by_live.front();
  for (Candidate* candidate : by_live) {
    if (candidate->live >= arena_of(*lowest)) break;  // arena >= live bytes
    if (arena_of(*candidate) < arena_of(*lowest)) lowest = candidate;
  }
  return *lowest;
}

const ArenaBudget::Candidate& ArenaBudget::plain() {
  arena_of(candidates_[plain_]);
  return candidates_[plain_];
}

BudgetRecord ArenaBudget::record(const Candidate& candidate, int64_t budget) {
  const int64_t once = plain().cost;
  return {.budget = budget,
          .unconstrained = plain().arena,
          .recomputed = static_cast<int>(candidate.runs.size() - steps_.problem.steps.size()),
          .time = once,
          .extra = candidate.cost - once,
          .bound = cost_bound(steps_.problem, budget) - once,
          .strategy = {}};
}

std::string ArenaBudget::peak_tensors_text(const Candidate& candidate, size_t count) const {
  const auto measured = measure(steps_.problem, candidate.runs);
  std::string text;
  for (size_t i = 0; i < std::min(count, measured->live_values.size()); ++i) {
    const Value& value = graph_.values[steps_.values[measured->live_values[i]]];
    const Node& producer = graph_.nodes[value.producer];
    text += fmt::format("  {:>12}  {} {}  {}\n", byte_text(value.spec.bytes()), producer.op->name(),
                        value.spec.text(), producer.module_path);
  }
  return text;
}

BudgetTooSmall::BudgetTooSmall(ArenaBudget& arena, int64_t budget)
    : PlanInfeasible(
          fmt::format("the arena needs at least {} bytes ({}) even with recomputation, but its "
                      "budget is {} bytes; the largest tensors that are live at the peak:\n{}",
                      arena.lowest().arena, byte_text(arena.lowest().arena), budget,
                      arena.peak_tensors_text(arena.lowest()))),
      minimum_(arena.lowest().arena) {}

Repeated repeat_nodes(const Graph& graph, const std::vector<int>& nodes) {
  Repeater repeater(graph);
  for (const int n : nodes) repeater.run(n);
  return repeater.finish();
}

}  // namespace tessera
