// What all strategies share: the list of them, and plans out of the ways they know.
#include <algorithm>

#include "tessera/memory/by_name.h"
#include "tessera/memory/recompute/ledger.h"
#include "tessera/memory/recompute/list.h"

namespace tessera {
namespace {

struct Measured {
  const Runs* runs;
  int64_t peak, cost;
};

// Those that can run; the cheapest first, of equal ones the lowest.
std::vector<Measured> measured(const RecomputeProblem& problem, const std::vector<Runs>& ways) {
  const recomputing::Tables tables(problem);
  recomputing::Ledger ledger(tables);
  std::vector<Measured> result;
  for (const Runs& runs : ways)
    if (ledger.enter(runs)) result.push_back({&runs, ledger.peak(), ledger.cost()});
  std::stable_sort(result.begin(), result.end(), [](const Measured& a, const Measured& b) {
    return std::pair(a.cost, a.peak) < std::pair(b.cost, b.peak);
  });
  return result;
}

std::vector<const RecomputeStrategy*>& list() {
  static std::vector<const RecomputeStrategy*> all = {
      &none_recompute(),   &cheap_recompute(), &segments_recompute(),
      &greedy_recompute(), &best_recompute(),  &exact_recompute(),
  };
  return all;
}

}  // namespace

double RecomputePlan::gap() const {
  if (cost <= bound) return 0;
  return static_cast<double>(cost - bound) / static_cast<double>(std::max<int64_t>(bound, 1));
}

std::vector<RecomputePlan> RecomputeStrategy::solve(const RecomputeProblem& problem,
                                                    std::span<const int64_t> budgets) const {
  std::vector<Runs> known = ways(problem);
  known.push_back(once_each(problem));
  const std::vector<Measured> by_cost = measured(problem, known);
  const auto lowest =
      std::min_element(by_cost.begin(), by_cost.end(),
                       [](const Measured& a, const Measured& b) { return a.peak < b.peak; });
  const int64_t base = base_cost(problem), lowest_peak = peak_bound(problem).bytes;
  std::vector<RecomputePlan> plans;
  for (int64_t budget : budgets) {
    const auto fits = [&](const Measured& way) { return budget < 0 || way.peak <= budget; };
    const auto found = std::find_if(by_cost.begin(), by_cost.end(), fits);
    const Measured& way = found == by_cost.end() ? *lowest : *found;
    RecomputePlan plan{*way.runs, way.peak, way.cost, way.cost - base, 0, lowest_peak};
    plan.bound = cost_bound(problem, budget);
    if (found != by_cost.end()) {
      plan.verdict = plan.cost <= plan.bound ? Verdict::kOptimal : Verdict::kWithin;
    } else {
      plan.verdict = budget < lowest_peak ? Verdict::kInfeasible : Verdict::kNotFound;
      plan.holders = measure(problem, plan.runs)->holders;
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

RecomputePlan RecomputeStrategy::solve(const RecomputeProblem& problem) const {
  return solve(problem, {&problem.budget, 1}).front();
}

const std::vector<const RecomputeStrategy*>& recompute_strategies() { return list(); }

bool add_recompute_strategy(const RecomputeStrategy& strategy) {
  return add_by_name(list(), strategy);
}

const RecomputeStrategy* find_recompute_strategy(std::string_view name) {
  return find_by_name(list(), name);
}

std::string recompute_strategy_names() { return names_in_order(list()); }

}  // namespace tessera
