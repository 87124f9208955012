// Every planner on very many random problems: no plan breaks a rule.
#include <algorithm>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "tessera/memory/plan_check.h"
#include "tessera/memory/sample_problems.h"

namespace tessera {
namespace {

// TESSERA_LONG_TESTS=1 tries a million; half of them have alignments, half gaps, and so on.
uint64_t problem_count() { return std::getenv("TESSERA_LONG_TESTS") ? 1'000'000 : 500; }

constexpr uint64_t kRare = 64;  // planners with long searches get one problem in kRare

// Returns a problem of 5 to 200 buffers, more often few.
Problem problem_of(uint64_t seed) {
  uint64_t rest = seed * 0x9e3779b97f4a7c15 >> 16;
  const auto draw = [&rest](uint64_t below) {
    const uint64_t drawn = rest % below;
    rest /= below;
    return drawn;
  };
  const uint64_t most = 5 + draw(196);
  RandomProblem settings{.buffers = static_cast<int64_t>(5 + draw(most - 4)), .seed = seed};
  settings.times = static_cast<int64_t>(2 + draw(100));
  settings.largest = int64_t{1} << draw(24);
  settings.aligned = (seed & 1) != 0 ? 0.5 : 0;
  settings.gaps = (seed & 2) != 0 ? 0.3 : 0;
  settings.fixed = (seed & 4) != 0 ? 0.1 : 0;
  settings.hints = (seed & 8) != 0 ? 0.5 : 0;
  settings.empty = (seed & 16) != 0 ? 0.1 : 0;
  return random_problem(settings);
}

// Counts problems by feature and outcome.
struct Seen {
  uint64_t alignments = 0, gaps = 0, fixed = 0, placed = 0, infeasible = 0;

  void count(const Problem& problem) {
    const auto any = [&](auto has) {
      return std::any_of(problem.buffers.begin(), problem.buffers.end(), has);
    };
    alignments += any([](const Interval& b) { return b.alignment > 1; });
    gaps += any([](const Interval& b) { return !b.gaps.empty(); });
    fixed += any([](const Interval& b) { return b.offset >= 0; });
  }
};

void expect_right(const Problem& problem, const Plan& plan, const Planner& planner, uint64_t seed) {
  const auto fault = check(problem, plan);
  ASSERT_FALSE(fault) << planner.name() << ", seed " << seed << ": " << fault->text;
}

TEST(PlannersAtScale, NoPlanBreaksARule) {
  Seen seen;
  for (uint64_t seed = 0; seed < problem_count(); ++seed) {
    Problem problem = problem_of(seed);
    seen.count(problem);
    const int64_t bound = lower_bound(problem);
    int64_t lowest = INT64_MAX;  // by planners without a search
    for (const Planner* planner : planners()) {
      const bool searches = planner->name() == "best" || planner->name() == "local_search";
      if (planner->name() == "optimal" || (searches && seed % kRare != 0)) continue;
      const Plan plan = planner->solve(problem);
      expect_right(problem, plan, *planner, seed);
      EXPECT_GE(plan.bytes, bound) << planner->name() << ", seed " << seed;
      EXPECT_TRUE(planner->name() != "best" || plan.bytes <= lowest) << "seed " << seed;
      lowest = std::min(lowest, plan.bytes);
    }
    // Tests the exact search: below all others, at a capacity, and at one that is too small.
    const Planner& optimal = *find_planner("optimal");
    if (seed % 3 == 1) problem.capacity = bound + (lowest - bound) / 2;
    if (seed % 3 == 2) problem.capacity = std::max<int64_t>(bound - 1, 0);
    const Solution solution = optimal.prove(problem, {.nodes = 40});
    EXPECT_GE(solution.bound, bound) << "seed " << seed;
    EXPECT_TRUE(problem.capacity >= 0 || solution.bound <= lowest) << "seed " << seed;
    if (solution.status == SolveStatus::kInfeasible) {
      ++seen.infeasible;
      EXPECT_LT(problem.capacity, lowest) << "seed " << seed;
    } else {
      EXPECT_TRUE(seed % 3 != 2 || bound == 0) << "seed " << seed;
    }
    if (solution.status == SolveStatus::kOptimal || solution.status == SolveStatus::kFeasible) {
      expect_right(problem, solution.plan, optimal, seed);
      ++seen.placed;
    }
    if (HasFailure()) return;
  }
  const uint64_t enough = problem_count() * 3 / 10;
  EXPECT_GE(seen.alignments, enough);
  EXPECT_GE(seen.gaps, enough);
  EXPECT_GE(seen.fixed, enough);
  EXPECT_GE(seen.placed, enough);
  EXPECT_GE(seen.infeasible, enough);
  RecordProperty("seen", std::to_string(seen.alignments) + " aligned, " +
                             std::to_string(seen.gaps) + " with gaps, " +
                             std::to_string(seen.fixed) + " fixed, " + std::to_string(seen.placed) +
                             " placed, " + std::to_string(seen.infeasible) + " infeasible");
}

}  // namespace
}  // namespace tessera
