#include "tessera/graph/arena_budget.h"

#include <algorithm>
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
                 bool reuse, const StepCosts& costs)
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

  // Adds the blocks that lifetimes() lets it take: of the same size, not read as something else
  // too.
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
  return ProblemBuilder(graph, scratch_bytes, device, reuse, costs).build();
}

ArenaBudget::ArenaBudget(const Graph& graph, const std::vector<int64_t>& scratch_bytes,
                         Device device, bool reuse, const Planner& planner,
                         const RecomputeStrategy& strategy, const StepCosts& costs)
    : graph_(graph),
      scratch_bytes_(scratch_bytes),
      device_(device),
      reuse_(reuse),
      planner_(planner),
      steps_(recompute_problem(graph, scratch_bytes, device, reuse, costs)) {
  const RecomputeProblem& problem = steps_.problem;
  const auto add = [&](Runs runs) {
    if (const auto measured = measure(problem, runs))
      ways_.push_back({std::move(runs), measured->peak, measured->cost});
  };
  add(once_each(problem));
  for (Runs& runs : strategy.ways(problem)) add(std::move(runs));
  std::stable_sort(ways_.begin(), ways_.end(), [](const Way& a, const Way& b) {
    return std::pair(a.cost, a.live) < std::pair(b.cost, b.live);
  });
  for (size_t i = 0; i < ways_.size(); ++i)
    if (ways_[i].runs.size() == problem.steps.size()) plain_ = i;
}

Repeated ArenaBudget::graph_of(const Way& way) const {
  std::vector<int> nodes;
  for (const int step : way.runs) nodes.push_back(steps_.nodes[step]);
  return repeat_nodes(graph_, nodes);
}

int64_t ArenaBudget::arena_of(Way& way) {
  if (way.arena >= 0) return way.arena;
  const Repeated repeated = graph_of(way);
  std::vector<int64_t> scratch;
  for (const int node : repeated.origin) scratch.push_back(scratch_bytes_[node]);
  const Problem problem = lifetimes(repeated.graph, scratch, reuse_).problem(nullptr, device_);
  way.arena = planner_.solve(problem).bytes;
  return way.arena;
}

const ArenaBudget::Way* ArenaBudget::within(int64_t budget) {
  for (Way& way : ways_)
    if (way.live <= budget && arena_of(way) <= budget) return &way;
  return nullptr;
}

const ArenaBudget::Way& ArenaBudget::lowest(int64_t extra) {
  std::vector<Way*> by_live;
  for (Way& way : ways_)
    if (way.cost - ways_[plain_].cost <= extra) by_live.push_back(&way);
  std::stable_sort(by_live.begin(), by_live.end(),
                   [](const Way* a, const Way* b) { return a->live < b->live; });
  Way* lowest = by_live.front();
  for (Way* way : by_live) {
    if (way->live >= arena_of(*lowest)) break;  // no arena is smaller than what is live in it
    if (arena_of(*way) < arena_of(*lowest)) lowest = way;
  }
  return *lowest;
}

const ArenaBudget::Way& ArenaBudget::plain() {
  arena_of(ways_[plain_]);
  return ways_[plain_];
}

BudgetRecord ArenaBudget::record(const Way& way, int64_t budget) {
  const int64_t once = plain().cost;
  return {.budget = budget,
          .without = plain().arena,
          .again = static_cast<int>(way.runs.size() - steps_.problem.steps.size()),
          .time = once,
          .extra = way.cost - once,
          .bound = cost_bound(steps_.problem, budget) - once,
          .strategy = {}};
}

std::string ArenaBudget::at_the_peak(const Way& way, size_t count) const {
  const auto measured = measure(steps_.problem, way.runs);
  std::string text;
  for (size_t i = 0; i < std::min(count, measured->holders.size()); ++i) {
    const Value& value = graph_.values[steps_.values[measured->holders[i]]];
    const Node& maker = graph_.nodes[value.producer];
    text += fmt::format("  {:>12}  {} {}  {}\n", byte_text(value.spec.bytes()), maker.op->name(),
                        value.spec.text(), maker.module_path);
  }
  return text;
}

BudgetTooSmall::BudgetTooSmall(ArenaBudget& arena, int64_t budget)
    : PlanInfeasible(fmt::format(
          "the arena needs at least {} bytes ({}), whatever is computed again; its budget is {} "
          "bytes; the largest tensors that are needed at one time:\n{}",
          arena.lowest().arena, byte_text(arena.lowest().arena), budget,
          arena.at_the_peak(arena.lowest()))),
      minimum_(arena.lowest().arena) {}

}  // namespace tessera
