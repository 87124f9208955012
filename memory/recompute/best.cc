// The default: what `cheap`, `segments` and `greedy` find, then a search all along it that keeps
// some of what costs most and forgets other things instead. Where a problem is so small that all
// its states can be looked at, the cheapest of all (exact_search.h). What the others find is among
// what it takes from, so none of them is ever cheaper.
//
//   cost | *                 * cheap, segments, greedy
//        | .*                . found by exchanging
//        |  .  *
//        |    .   *
//        |       . .  *
//        +---------------> budget
#include "tessera/memory/recompute/exact_search.h"
#include "tessera/memory/recompute/explore.h"
#include "tessera/memory/recompute/list.h"

namespace tessera {
namespace {

using namespace recomputing;

class Best : public RecomputeStrategy {
 public:
  std::string_view name() const override { return "best"; }
  std::string_view explanation() const override {
    return "the cheapest of these, then an exchange of what is kept (the default)";
  }

  std::vector<Runs> ways(const RecomputeProblem& problem) const override {
    const Tables tables(problem);
    Frontier frontier;
    go_down(tables, true, frontier);
    cut_in_segments(tables, frontier);
    go_down(tables, false, frontier);
    improve(tables, frontier);
    return ways_of(tables, frontier);
  }

  // The exact search is there for all budgets or for none, so that a larger one never costs more.
  std::vector<RecomputePlan> solve(const RecomputeProblem& problem,
                                   std::span<const int64_t> budgets) const override {
    constexpr size_t kMostStates = 1 << 19;
    std::vector<RecomputePlan> plans = RecomputeStrategy::solve(problem, budgets);
    if (most_states(Tables(problem)) > kMostStates) return plans;
    for (size_t i = 0; i < plans.size(); ++i)
      if (plans[i].verdict != Verdict::kOptimal)
        prove_exactly(problem, budgets[i], kMostStates, plans[i]);
    return plans;
  }
};

}  // namespace

const RecomputeStrategy& best_recompute() {
  static const Best strategy;
  return strategy;
}

}  // namespace tessera
