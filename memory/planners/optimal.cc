// The planners that search, with proofs: optimal, its ablations, and best, the default.
#include <algorithm>
#include <utility>

#include "tessera/memory/ablation.h"
#include "tessera/memory/planners/exact.h"

namespace tessera::planning {
namespace {

Solution prove_with(const Inferences& inferences, const PreparedProblem& prepared, int64_t nodes) {
  constexpr int64_t kNodes = 600'000;
  if (nodes <= 0) nodes = kNodes;
  return refine(prepared, judge(prepared, best_of_orders(prepared, 0, true), nodes), nodes,
                inferences);
}

// Returns the decisions for the exact search: about a second's worth, fewer for more buffers as
// each takes longer, but enough to place all buffers once.
int64_t nodes_for(int64_t buffers) {
  constexpr int64_t kWork = 50'000'000, kPerBuffer = 20'000;
  const int64_t count = std::max<int64_t>(buffers, 1);
  return std::max(2 * count, std::min(kWork / count, kPerBuffer * count));
}

constexpr Ablation kAblations[] = {
    {"peeling", "a block that fits wherever the others are placed is placed last",
     &Inferences::peeling},
    {"sums", "the unplaced bytes of each section must fit above its floor", &Inferences::sums},
    {"splits", "time ranges that no unplaced block connects are solved separately",
     &Inferences::splits},
    {"ceiling", "a block that spans its whole time range goes to the top of the range",
     &Inferences::ceiling},
    {"duplicates", "of identical blocks, the first is placed lowest", &Inferences::duplicates},
    {"hatless", "a block that lifts no other block is not tried elsewhere", &Inferences::hatless},
    {"nogoods", "a state that failed once is not tried again", &Inferences::nogoods},
    {"restarts", "several strategies alternate, each time for longer", &Inferences::restarts},
};

}  // namespace

// optimal finds the lowest plan, with proof, or proves that none fits the capacity. An exact search
// (search.h) decides whether there is a plan at a capacity: first at the lower bound, which most
// problems reach, and then ever closer between the highest capacity that is proved too small and
// the lowest plan known. If its decisions run out, the result says how far apart these still are.
//
//   bytes   |--- proved impossible ---|---- open ----|---- plans ----
//                                   bound          bytes
Solution optimal(const PreparedProblem& prepared, int64_t nodes) {
  return prove_with({}, prepared, nodes);
}

// best, the default planner, tries methods in turn and returns the lowest plan. One or two cheap
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
Solution best(const PreparedProblem& prepared, int64_t nodes) {
  // Comparisons for orders that no other planner uses: some 10 ms on an idle core.
  constexpr Effort kEffort = 6'000'000;
  const Problem& problem = prepared.problem;
  if (nodes <= 0) nodes = nodes_for(std::ssize(problem.buffers));
  // The exact search costs less than most of the orders.
  Plan plan = best_of_orders(prepared, kEffort, true);
  Solution solution = refine(prepared, judge(prepared, std::move(plan), nodes), nodes);
  const auto done = [&] {
    const int64_t enough = std::max(solution.bound, prepared.good_enough);
    return solution.status == SolveStatus::kInfeasible || solution.plan.bytes <= enough ||
           prepared.deadline.passed();
  };
  const auto take = [&](Plan other) {
    if (other.bytes >= solution.plan.bytes) return;
    solution.plan = std::move(other);
    solution.status = status_of(problem, solution);
  };
  if (!done()) take(best_of_orders(prepared, kEffort));
  for (const auto other : {local_search, xla, tflite})
    if (!done()) take(other(prepared));
  return solution;
}

}  // namespace tessera::planning

namespace tessera {

std::span<const Ablation> ablations() { return planning::kAblations; }

Solution prove_without(std::string_view inference, const Problem& problem, const Limits& limits) {
  planning::Inferences inferences;
  for (const Ablation& ablation : ablations())
    if (ablation.name == inference) inferences.*ablation.use = false;
  const planning::PreparedProblem prepared(problem, planning::Deadline(limits.seconds));
  return planning::prove_with(inferences, prepared, limits.nodes);
}

}  // namespace tessera
