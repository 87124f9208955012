// best, the default planner: tries methods in turn and returns the lowest plan. One or two cheap
// orders come first. If their plan is above the lower bound, an exact search (exact.h) looks for a
// lower one for a while. If the search leaves something open, all other orders and three other
// planners follow. Stops as soon as a plan is proved lowest.
//
//   bytes
//     | **                    one or two orders
//     |   ******              the exact search, within its number of decisions
//     |         ****          all other orders
//     |             ****      the planners local_search, xla and tflite
//     | .................     the proved bound: best stops when a plan meets it
//     +-----------------> effort
#include <algorithm>
#include <utility>

#include "tessera/memory/planners/exact.h"
#include "tessera/memory/planners/list.h"
#include "tessera/memory/planners/placement.h"

namespace tessera {
namespace {

using namespace planning;

// Comparisons for orders that no other planner uses: some 10 ms on an idle core.
constexpr Effort kEffort = 6'000'000;

// Returns the decisions for the exact search: about a second's worth, fewer for more buffers as
// each takes longer, but enough to place all buffers once.
int64_t nodes_for(int64_t buffers) {
  constexpr int64_t kWork = 50'000'000, kPerBuffer = 20'000;
  const int64_t count = std::max<int64_t>(buffers, 1);
  return std::max(2 * count, std::min(kWork / count, kPerBuffer * count));
}

class Best : public Planner {
 public:
  std::string_view name() const override { return "best"; }
  std::string_view explanation() const override {
    return "the lowest plan of cheap orders, an exact search and a local search (the default)";
  }
  Plan solve(const Problem& problem) const override { return prove(problem).plan; }

  Solution prove(const Problem& problem, const Limits& limits = {}) const override {
    const Deadline deadline(limits.seconds);
    const PreparedProblem prepared(problem);
    // The exact search costs less than most of the orders.
    Plan plan = best_of_orders(problem, prepared, kEffort, deadline, true);
    const int64_t nodes = limits.nodes > 0 ? limits.nodes : nodes_for(std::ssize(problem.buffers));
    Solution solution = judge(problem, prepared, std::move(plan), nodes, deadline);
    solution = refine(problem, prepared, std::move(solution), nodes, deadline);
    const auto done = [&] {
      const int64_t enough = std::max(solution.bound, prepared.good_enough);
      return solution.status == SolveStatus::kInfeasible || solution.plan.bytes <= enough ||
             deadline.passed();
    };
    const auto take = [&](Plan other) {
      if (other.bytes >= solution.plan.bytes) return;
      solution.plan = std::move(other);
      solution.status = status_of(problem, solution);
    };
    if (!done()) take(best_of_orders(problem, prepared, kEffort, deadline));
    for (const Placer* other : {&local_search_planner(), &xla_planner(), &tflite_planner()}) {
      if (!done()) take(other->plan_until(prepared, deadline));
    }
    return solution;
  }
};

}  // namespace

const Planner& best_planner() {
  static const Best planner;
  return planner;
}

}  // namespace tessera
