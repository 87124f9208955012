// The cheapest there is, by looking at every state that a program can be in (exact_search.h): for
// problems of some 20 values. With more it stops after a number of states, and what it then returns
// is what `greedy` does, held against a better bound. The judge of the others.
//
//   state: (next step, values there)
//     (2, ab) -- c --> (3, abc) -- d, free a --> (4, bcd)      what has run and what is there is
//     all
//          \                                     /             that matters, not how it came to be
//           free b, c --> (3, ac) -- b, free a --
#include <cmath>

#include "tessera/memory/recompute/exact_search.h"
#include "tessera/memory/recompute/list.h"

namespace tessera {
namespace {

class Exact : public RecomputeStrategy {
 public:
  std::string_view name() const override { return "exact"; }
  std::string_view explanation() const override {
    return "every state a small program can be in, the cheapest way through them";
  }
  std::vector<Runs> ways(const RecomputeProblem& problem) const override {
    return greedy_recompute().ways(problem);
  }
  std::vector<RecomputePlan> solve(const RecomputeProblem& problem,
                                   std::span<const int64_t> budgets) const override {
    constexpr size_t kMostStates = 1'000'000;
    std::vector<RecomputePlan> plans = RecomputeStrategy::solve(problem, budgets);
    if (std::isinf(recomputing::most_states(recomputing::Tables(problem)))) return plans;
    for (size_t i = 0; i < plans.size(); ++i)
      if (plans[i].verdict != Verdict::kOptimal)
        recomputing::prove_exactly(problem, budgets[i], kMostStates, plans[i]);
    return plans;
  }
};

}  // namespace

const RecomputeStrategy& exact_recompute() {
  static const Exact strategy;
  return strategy;
}

}  // namespace tessera
