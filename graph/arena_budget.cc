#include "tessera/graph/arena_budget.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tessera/graph/lifetimes.h"
#include "tessera/runtime/text/bytes.h"

namespace tessera {

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
