// Compares the exact search, and its statuses, with brute force.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>

#include "random_problem.h"
#include <gtest/gtest.h>

#include "tessera/memory/ablation.h"
#include "tessera/memory/plan_check.h"

namespace tessera {
namespace {

using testing::Features;
using testing::random_problem;

// TESSERA_LONG_TESTS=1 tries a hundred times as many.
uint32_t count_of(uint32_t few) { return std::getenv("TESSERA_LONG_TESTS") ? 100 * few : few; }

const Planner& optimal() { return *find_planner("optimal"); }

bool live(const Interval& b, int64_t time) {
  return b.size > 0 && b.lower <= time && time < b.upper &&
         std::none_of(b.gaps.begin(), b.gaps.end(),
                      [&](const Gap& gap) { return gap.lower <= time && time < gap.upper; });
}

// Returns the bytes of the lowest plan, by trying every offset of every buffer; nullopt if the
// fixed buffers clash.
std::optional<int64_t> lowest_by_brute_force(const Problem& problem) {
  const size_t count = problem.buffers.size();
  std::vector<std::vector<bool>> meet(count, std::vector<bool>(count));
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j < count; ++j) {
      for (int64_t time = 0; time < 40; ++time) {
        if (live(problem.buffers[i], time) && live(problem.buffers[j], time)) meet[i][j] = true;
      }
    }
  }
  std::vector<int64_t> offsets(count);
  int64_t most = 0;  // all sizes on top of the fixed buffers
  for (const Interval& b : problem.buffers) most = std::max(most, b.offset + b.size);
  for (const Interval& b : problem.buffers) most += b.size + b.alignment;
  int64_t lowest = most + 1;
  const std::function<void(size_t, int64_t)> place = [&](size_t i, int64_t top) {
    if (top >= lowest) return;
    if (i == count) {
      lowest = top;
      return;
    }
    const Interval& b = problem.buffers[i];
    if (b.size == 0 || b.lower >= b.upper) return place(i + 1, top);
    const int64_t first = b.offset >= 0 ? b.offset : 0;
    const int64_t last = b.offset >= 0 ? b.offset : lowest - b.size;
    for (int64_t at = first; at <= last; at += b.alignment) {
      bool free = true;
      for (size_t j = 0; j < i && free; ++j) {
        free =
            !meet[i][j] || at >= offsets[j] + problem.buffers[j].size || offsets[j] >= at + b.size;
      }
      offsets[i] = at;
      if (free) place(i + 1, std::max(top, at + b.size));
    }
  };
  place(0, 0);
  if (lowest > most) return std::nullopt;
  return lowest;
}

Problem small_problem(uint32_t seed) {
  const Features features{(seed & 1) != 0, (seed & 2) != 0, (seed & 4) != 0, (seed & 8) != 0};
  Problem problem = random_problem(seed, 3 + static_cast<int>(seed % 4), 8, 9, features);
  for (Interval& b : problem.buffers) {
    b.alignment = (b.alignment - 1) % 4 + 1;  // small, and not only powers of two
    if (b.offset >= 0) b.offset = b.offset / b.alignment * b.alignment;
  }
  return problem;
}

bool can_be_planned(Problem problem, int64_t capacity) {
  const std::optional<int64_t> lowest = lowest_by_brute_force(problem);
  return lowest && *lowest <= capacity;
}

TEST(Optimal, IsTheOptimumOfSmallProblems) {
  for (uint32_t seed = 0; seed < count_of(400); ++seed) {
    const Problem problem = small_problem(seed);
    const std::optional<int64_t> lowest = lowest_by_brute_force(problem);
    const Solution solution = optimal().prove(problem);
    if (!lowest) {
      EXPECT_EQ(solution.status, SolveStatus::kInfeasible) << "seed " << seed;
      continue;
    }
    EXPECT_EQ(solution.status, SolveStatus::kOptimal) << "seed " << seed;
    EXPECT_EQ(solution.plan.bytes, *lowest) << "seed " << seed;
    EXPECT_EQ(solution.bound, *lowest) << "seed " << seed;
    EXPECT_FALSE(check(problem, solution.plan)) << "seed " << seed;
  }
}

TEST(Optimal, MeetsACapacityOrShowsWhyNot) {
  for (uint32_t seed = 0; seed < count_of(300); ++seed) {
    Problem problem = small_problem(seed);
    const std::optional<int64_t> lowest = lowest_by_brute_force(problem);
    if (!lowest || *lowest == 0) continue;
    problem.capacity = *lowest;
    const Solution fits = optimal().prove(problem);
    EXPECT_FALSE(check(problem, fits.plan)) << "seed " << seed;
    problem.capacity = *lowest - 1;
    const Solution none = optimal().prove(problem);
    ASSERT_EQ(none.status, SolveStatus::kInfeasible) << "seed " << seed;
    // The conflict is infeasible; without any one of its buffers it is feasible.
    ASSERT_FALSE(none.conflict.empty()) << "seed " << seed;
    Problem conflict{{}, problem.capacity};
    for (int i : none.conflict) conflict.buffers.push_back(problem.buffers[i]);
    EXPECT_FALSE(can_be_planned(conflict, problem.capacity)) << "seed " << seed;
    for (size_t i = 0; i < conflict.buffers.size(); ++i) {
      Problem rest = conflict;
      rest.buffers.erase(rest.buffers.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_TRUE(can_be_planned(rest, problem.capacity)) << "seed " << seed << " without " << i;
    }
  }
}

// A problem that any planner calls infeasible has no plan; a plan that it calls optimal is lowest.
TEST(Verdicts, AreThoseOfBruteForce) {
  int infeasible = 0, lowest_of_all = 0;
  for (uint32_t seed = 0; seed < count_of(100); ++seed) {
    Problem problem = small_problem(seed);
    const std::optional<int64_t> lowest = lowest_by_brute_force(problem);
    for (int64_t capacity : {int64_t{-1}, lowest.value_or(1), lowest.value_or(1) - 1}) {
      problem.capacity = std::max<int64_t>(capacity, -1);
      const bool possible = lowest && (problem.capacity < 0 || *lowest <= problem.capacity);
      for (const Planner* planner : planners()) {
        const Solution solution = planner->prove(problem);
        if (solution.status == SolveStatus::kInfeasible) {
          EXPECT_FALSE(possible) << planner->name() << ", seed " << seed;
          ++infeasible;
        } else if (solution.status == SolveStatus::kOptimal) {
          EXPECT_EQ(solution.plan.bytes, lowest) << planner->name() << ", seed " << seed;
          ++lowest_of_all;
        }
        EXPECT_TRUE(!lowest || solution.bound <= *lowest || !possible) << planner->name();
      }
    }
  }
  EXPECT_GT(infeasible, 100);
  EXPECT_GT(lowest_of_all, 100);
}

// Even listing all overlaps with fixed buffers would take long, so nothing is searched.
TEST(Optimal, DoesNotAskAtAllWhereThatTakesLong) {
  Problem problem;
  for (int64_t i = 0; i < 4200; ++i) {
    problem.buffers.push_back({.lower = 0, .upper = 2, .size = 2, .offset = 3 * i});
    problem.buffers.push_back({.lower = 1, .upper = 3, .size = 2});
  }
  const Solution solution = optimal().prove(problem);
  EXPECT_EQ(solution.nodes, 0);
  EXPECT_EQ(solution.status, SolveStatus::kFeasible);
  problem.buffers.resize(200);
  EXPECT_EQ(optimal().prove(problem).status, SolveStatus::kOptimal);
}

// The problem is too large as a whole, but no buffer is live across parts, so each part is solved
// alone.
TEST(Optimal, AsksPartByPartWhereTheWholeIsTooLarge) {
  constexpr int64_t kParts = 7, kFixed = 2500;
  Problem problem;
  for (int64_t part = 0; part < kParts; ++part) {
    for (int64_t i = 0; i < kFixed; ++i) {
      problem.buffers.push_back({.lower = part, .upper = part + 1, .size = 2, .offset = 3 * i});
    }
  }
  // Gaps between the others have one byte each.
  problem.buffers.push_back({.lower = kParts - 1, .upper = kParts, .size = 2});
  const Solution solution = optimal().prove(problem);
  EXPECT_EQ(solution.status, SolveStatus::kOptimal);
  EXPECT_EQ(solution.plan.bytes, 3 * kFixed + 1);
  EXPECT_EQ(lower_bound(problem), 3 * kFixed - 1);
}

// The conflict is found however many buffers are live at once.
TEST(Optimal, FindsTwoFixedBuffersThatClash) {
  Problem problem;
  constexpr int64_t kCount = 6000;
  for (int64_t i = 0; i < kCount; ++i) {
    problem.buffers.push_back({.lower = i, .upper = kCount + i, .size = 2, .offset = 2 * i});
  }
  EXPECT_NE(optimal().prove(problem).status, SolveStatus::kInfeasible);
  problem.buffers[4001].offset = problem.buffers[4000].offset + 1;
  const Solution solution = optimal().prove(problem);
  EXPECT_EQ(solution.status, SolveStatus::kInfeasible);
  EXPECT_EQ(solution.conflict, (std::vector{4000, 4001}));
}

TEST(Optimal, IsRightOnRandomProblems) {
  for (uint32_t seed = 0; seed < count_of(100); ++seed) {
    const Features features{(seed & 1) != 0, (seed & 2) != 0, (seed & 4) != 0, (seed & 8) != 0};
    Problem problem = random_problem(seed, 5 + static_cast<int>(seed * 7 % 196), 60, 500, features);
    const int64_t bound = lower_bound(problem);
    if (seed % 3 == 0) problem.capacity = bound - 1 - seed % 50;
    if (seed % 3 == 1) problem.capacity = bound + bound / 50;
    const Solution solution = optimal().prove(problem, {.nodes = 2000});
    EXPECT_GE(solution.bound, bound) << "seed " << seed;
    if (seed % 3 == 0) {
      EXPECT_EQ(solution.status, SolveStatus::kInfeasible) << "seed " << seed;
      if (!features.alignments && !features.fixed) {
        EXPECT_FALSE(solution.conflict.empty()) << "seed " << seed;
      }
    }
    if (solution.status == SolveStatus::kInfeasible || solution.status == SolveStatus::kUnknown) {
      problem.capacity = -1;  // the plan is the lowest found
    }
    const auto fault = check(problem, solution.plan);
    EXPECT_FALSE(fault) << "seed " << seed << ": " << fault->text;
  }
}

// Returns a rectangle cut into boxes, so that a plan without a lost byte exists.
Problem cut_rectangle(uint32_t seed, int count) {
  std::mt19937 numbers(seed);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(numbers() % n); };
  Problem problem{{{0, 1000, 1000}}};
  while (static_cast<int>(problem.buffers.size()) < count) {
    Interval& box = problem.buffers[below(static_cast<int64_t>(problem.buffers.size()))];
    Interval other = box;
    if (below(2) == 0 && box.size > 1) {
      other.size = 1 + below(box.size - 1);
      box.size -= other.size;
    } else if (box.upper - box.lower > 1) {
      other.upper = box.lower = box.lower + 1 + below(box.upper - box.lower - 1);
    } else {
      continue;
    }
    problem.buffers.push_back(other);
  }
  return problem;
}

TEST(Optimal, PacksARectangleThatWasCutUp) {
  int greedy = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Problem problem = cut_rectangle(seed, 60);
    const Solution solution = optimal().prove(problem);
    EXPECT_EQ(solution.plan.bytes, 1000) << "seed " << seed;
    EXPECT_EQ(solution.status, SolveStatus::kOptimal) << "seed " << seed;
    if (find_planner("first_fit")->solve(problem).bytes == 1000) ++greedy;
  }
  EXPECT_LT(greedy, 10);  // most need a search
}

TEST(Optimal, CountsDecisionsNotSeconds) {
  const Problem problem = random_problem(11, 60, 40, 1000, {.alignments = true, .gaps = true});
  const Solution a = optimal().prove(problem, {.nodes = 3000});
  const Solution b = optimal().prove(problem, {.nodes = 3000});
  EXPECT_EQ(a.plan, b.plan);
  EXPECT_EQ(a.nodes, b.nodes);
  EXPECT_LE(a.nodes, 3000);
}

TEST(Ablations, ChangeTheEffortNotTheTruth) {
  int64_t more = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Problem problem = small_problem(seed);
    const Solution all = optimal().prove(problem);
    EXPECT_EQ(prove_without("", problem).nodes, all.nodes);
    for (const Ablation& ablation : ablations()) {
      const Solution solution = prove_without(ablation.name, problem);
      EXPECT_EQ(solution.status, all.status) << ablation.name << ", seed " << seed;
      EXPECT_EQ(solution.bound, all.bound) << ablation.name << ", seed " << seed;
      EXPECT_FALSE(ablation.explanation.empty());
      more += solution.nodes - all.nodes;
    }
  }
  EXPECT_GT(more, 0);
}

TEST(Optimal, DoesNotOverflow) {
  const int64_t huge = int64_t{1} << 58;
  Problem problem{{{0, 2, huge}, {1, 3, huge + 1}, {2, 4, huge}, {0, 4, 5, huge}, {3, 5, huge}}};
  ASSERT_EQ(malformed(problem), std::nullopt);
  const Solution solution = optimal().prove(problem, {.nodes = INT64_MAX});
  EXPECT_FALSE(check(problem, solution.plan));
  EXPECT_EQ(solution.status, SolveStatus::kOptimal);
  problem.capacity = INT64_MAX;
  EXPECT_FALSE(check(problem, optimal().prove(problem).plan));
  problem.capacity = 2 * huge;
  EXPECT_EQ(optimal().prove(problem).status, SolveStatus::kInfeasible);
}

// Sizes, times, alignments and offsets at the limits of a problem.
TEST(Optimal, PlansTheLargestNumbers) {
  for (uint32_t seed = 0; seed < count_of(40); ++seed) {
    Problem problem = random_problem(seed, 12, 10, 1000, {.alignments = true, .gaps = true});
    for (Interval& b : problem.buffers) {
      b.size = (b.size << 46) + seed % 3;  // the sum of 12 is below 2^60
      b.alignment <<= seed % 40;
      b.lower <<= 57;
      b.upper <<= 57;
      for (Gap& gap : b.gaps) gap = {gap.lower << 57, gap.upper << 57};
    }
    problem.buffers[0].offset =
        (int64_t{1} << 60) / problem.buffers[0].alignment * problem.buffers[0].alignment;
    const auto fault = malformed(problem);
    ASSERT_EQ(fault, std::nullopt) << *fault;
    for (int64_t capacity : {int64_t{-1}, (int64_t{1} << 60) + 5, INT64_MAX}) {
      problem.capacity = capacity;
      for (const Planner* planner : planners()) {
        const Solution solution = planner->prove(problem, {.nodes = 500});
        const bool placed =
            solution.status == SolveStatus::kOptimal || solution.status == SolveStatus::kFeasible;
        EXPECT_TRUE(!placed || !check(problem, solution.plan)) << planner->name();
        EXPECT_GE(solution.plan.bytes, solution.bound);
      }
    }
  }
}

TEST(Verdicts, SayWhatIsKnown) {
  Problem problem{{{0, 2, 10}, {1, 3, 10}, {2, 4, 10}}};
  EXPECT_EQ(optimal().prove(problem).status, SolveStatus::kOptimal);
  EXPECT_EQ(find_planner("none")->prove(problem).status, SolveStatus::kFeasible);
  EXPECT_DOUBLE_EQ(find_planner("none")->prove(problem).gap(), 0.5);
  problem.capacity = 25;
  EXPECT_EQ(find_planner("none")->prove(problem).status, SolveStatus::kUnknown);
  EXPECT_EQ(find_planner("best")->prove(problem).status, SolveStatus::kOptimal);
  problem.capacity = 15;
  const Solution none = find_planner("best")->prove(problem);
  EXPECT_EQ(none.status, SolveStatus::kInfeasible);
  EXPECT_EQ(none.conflict, (std::vector<int>{0, 1}));
  // Fixed buffers that clash leave no plan at any capacity.
  Problem clash{{{0, 2, 10}, {0, 2, 10}, {1, 3, 10}}};
  clash.buffers[0].offset = 0;
  clash.buffers[2].offset = 5;
  EXPECT_EQ(optimal().prove(clash).status, SolveStatus::kInfeasible);
  EXPECT_EQ(optimal().prove(clash).conflict, (std::vector<int>{0, 2}));
}

}  // namespace
}  // namespace tessera
