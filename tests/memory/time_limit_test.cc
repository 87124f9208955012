// Limits in seconds, without a clock: one that has expired at the start, and one that never ends.
#include "random_problem.h"
#include <gtest/gtest.h>

#include "tessera/memory/plan_check.h"

namespace tessera {
namespace {

using testing::random_problem;

constexpr double kPast = 1e-9, kNever = 1e6;

// A planner that reads the time before each step only stacks the buffers.
TEST(TimeLimit, HoldsForEveryPlanner) {
  const Problem problem = random_problem(1, 400, 50, 1000, {.gaps = true});
  const int64_t stacked = unplanned_bytes(problem);
  for (const Planner* planner : planners()) {
    const Solution solution = planner->prove(problem, {.seconds = kPast});
    EXPECT_FALSE(check(problem, solution.plan)) << planner->name();
    EXPECT_EQ(solution.plan.bytes, stacked) << planner->name();
    EXPECT_EQ(solution.nodes, 0) << planner->name();
  }
}

TEST(TimeLimit, KeepsWhatIsFixedAndAligned) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Problem problem =
        random_problem(seed, 100, 30, 1000, {.alignments = true, .gaps = true, .fixed = true});
    for (const Planner* planner : planners()) {
      const Solution solution = planner->prove(problem, {.seconds = kPast});
      EXPECT_FALSE(check(problem, solution.plan)) << planner->name() << ", seed " << seed;
    }
  }
}

TEST(TimeLimit, ProvesNothingWhenItIsPast) {
  Problem problem = random_problem(1, 400, 50, 1000);
  problem.capacity = lower_bound(problem);
  const Solution open = find_planner("best")->prove(problem, {.seconds = kPast});
  EXPECT_EQ(open.status, SolveStatus::kUnknown);
  --problem.capacity;
  const Solution none = find_planner("best")->prove(problem, {.seconds = kPast});
  EXPECT_EQ(none.status, SolveStatus::kInfeasible);
  EXPECT_TRUE(none.conflict.empty());
}

// 3001 buffers are too many for the search with one decision; the local search finds the lowest
// plan.
TEST(TimeLimit, LeavesNoPlannerOutWhileItLasts) {
  const Problem problem = random_problem(1, 3001, 300, 1 << 17);
  const Planner& best = *find_planner("best");
  const Solution limited = best.prove(problem, {.nodes = 1, .seconds = kNever});
  EXPECT_EQ(limited.plan, best.prove(problem, {.nodes = 1}).plan);
  EXPECT_EQ(limited.plan.bytes, find_planner("local_search")->solve(problem).bytes);
}

}  // namespace
}  // namespace tessera
