#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>

#include "random_problem.h"
#include <gtest/gtest.h>

#include "tessera/memory/plan_check.h"
#include "tessera/memory/plan_csv.h"

namespace tessera {
namespace {

using testing::Features;
using testing::random_problem;

// Limits the decisions of searches, so that no planner takes long.
Plan plan_of(const Planner& planner, const Problem& problem) {
  return planner.prove(problem, {.nodes = 1000}).plan;
}

int64_t bytes_of(std::string_view planner, const Problem& problem) {
  return find_planner(planner)->solve(problem).bytes;
}

// Returns the largest live sum of all times.
int64_t bound_by_hand(const Problem& problem) {
  int64_t last = 0, bound = 0;
  for (const Interval& b : problem.buffers) last = std::max(last, b.upper);
  for (int64_t time = 0; time < last; ++time) {
    int64_t live = 0;
    for (const Interval& b : problem.buffers) {
      const bool in_gap = std::any_of(b.gaps.begin(), b.gaps.end(), [&](const Gap& gap) {
        return gap.lower <= time && time < gap.upper;
      });
      if (b.lower <= time && time < b.upper && !in_gap) live += b.size;
    }
    bound = std::max(bound, live);
  }
  return bound;
}

// Returns the bytes of the lowest plan. Tries all orders, each buffer at its lowest offset: one of
// them gives that plan.
int64_t lowest_by_brute_force(const Problem& problem) {
  std::vector<int> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t lowest = INT64_MAX;
  do {
    std::vector<int64_t> offsets(order.size(), -1);
    int64_t top = 0;
    for (int i : order) {
      const Interval& a = problem.buffers[i];
      const auto clashes = [&](int64_t at) {
        for (size_t j = 0; j < offsets.size(); ++j) {
          const Interval& b = problem.buffers[j];
          if (offsets[j] < 0 || a.upper <= b.lower || b.upper <= a.lower) continue;
          if (at < offsets[j] + b.size && offsets[j] < at + a.size) return true;
        }
        return false;
      };
      int64_t at = 0;
      while (clashes(at)) ++at;
      offsets[i] = at;
      top = std::max(top, at + a.size);
    }
    lowest = std::min(lowest, top);
  } while (std::next_permutation(order.begin(), order.end()));
  return lowest;
}

TEST(Planners, EveryOneIsRightOnRandomProblems) {
  for (uint32_t seed = 0; seed < 64; ++seed) {
    const Features features{(seed & 1) != 0, (seed & 2) != 0, (seed & 4) != 0, (seed & 8) != 0,
                            (seed & 16) != 0};
    const Problem problem = random_problem(seed, 20 + 3 * seed, 60, 500, features);
    ASSERT_EQ(malformed(problem), std::nullopt);
    const int64_t bound = lower_bound(problem);
    for (const Planner* planner : planners()) {
      const Plan plan = plan_of(*planner, problem);
      const auto fault = check(problem, plan);
      EXPECT_FALSE(fault) << planner->name() << " seed " << seed << ": " << fault->text;
      EXPECT_GE(plan.bytes, bound) << planner->name() << " seed " << seed;
    }
  }
}

TEST(Planners, BestIsTheLowestOfAll) {
  for (uint32_t seed = 0; seed < 8; ++seed) {
    const Problem problem = random_problem(seed, 80, 40, 1000, {.alignments = seed % 2 == 1});
    const int64_t best = bytes_of("best", problem);
    for (const Planner* planner : planners()) {
      if (planner->name() == "optimal") continue;  // it may search for longer
      EXPECT_LE(best, planner->solve(problem).bytes) << planner->name() << " seed " << seed;
    }
  }
}

TEST(Planners, BestProvesWhatOptimalProvesOfSmallProblems) {
  int proved = 0;
  for (uint32_t seed = 0; seed < 8; ++seed) {
    const Problem problem = random_problem(seed, 16, 20, 100'000, {.alignments = true});
    const Solution best = find_planner("best")->prove(problem);
    const Solution optimal = find_planner("optimal")->prove(problem);
    EXPECT_EQ(best.plan.bytes, optimal.plan.bytes) << "seed " << seed;
    EXPECT_EQ(best.status, optimal.status) << "seed " << seed;
    proved += optimal.status == SolveStatus::kOptimal;
  }
  EXPECT_GE(proved, 3);
}

TEST(Planners, BestFindsTheOptimumOfTinyProblems) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Problem problem = random_problem(seed, 6, 8, 5);
    EXPECT_EQ(bytes_of("best", problem), lowest_by_brute_force(problem)) << "seed " << seed;
  }
}

TEST(Planners, SearchesCloseWhatTheOrdersLeaveOpen) {
  // Some of these problems show gains over every single heuristic.
  int closed = 0;
  for (uint32_t seed = 100; seed < 140; ++seed) {
    const Problem problem = random_problem(seed, 40, 30, 100);
    int64_t others = INT64_MAX;
    for (const Planner* planner : planners()) {
      if (planner->name() == "local_search" || planner->name() == "optimal") continue;
      if (planner->name() == "best") continue;
      others = std::min(others, planner->solve(problem).bytes);
    }
    if (bytes_of("best", problem) < others) ++closed;
  }
  EXPECT_GE(closed, 5);
}

TEST(Planners, TheSameProblemGivesTheSamePlan) {
  const Problem problem =
      random_problem(7, 150, 80, 1000, {.alignments = true, .gaps = true, .fixed = true});
  for (const Planner* planner : planners()) {
    EXPECT_EQ(plan_of(*planner, problem), plan_of(*planner, problem)) << planner->name();
  }
}

TEST(Planners, DoTheirOwnThing) {
  // a frees a hole of 10 below b; c (6) and d (10) compete for it.
  const Problem problem{{{0, 2, 10}, {0, 6, 4}, {2, 6, 6}, {3, 6, 10}}};
  EXPECT_EQ(find_planner("none")->solve(problem).offsets, (std::vector<int64_t>{0, 10, 14, 20}));
  EXPECT_EQ(find_planner("in_order")->solve(problem).offsets, (std::vector<int64_t>{0, 10, 0, 14}));
  EXPECT_EQ(find_planner("first_fit")->solve(problem).offsets,
            (std::vector<int64_t>{0, 16, 10, 0}));
  EXPECT_EQ(bytes_of("best", problem), 20);
}

TEST(Planners, BestFitTakesTheTightestHole) {
  // Fixed blocks leave holes of 8 at 2 and of 4 at 12.
  Problem problem{{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}, {0, 1, 4}}};
  problem.buffers[0].offset = 0;
  problem.buffers[1].offset = 10;
  problem.buffers[2].offset = 16;
  EXPECT_EQ(find_planner("first_fit")->solve(problem).offsets[3], 2);
  EXPECT_EQ(find_planner("best_fit")->solve(problem).offsets[3], 12);
}

TEST(Planners, FirstFitByAreaAndByLifetimeTakeTheirFirstOne) {
  // Areas 14, 15 and 8: the first is largest, the second has most area, the third lives longest.
  const Problem problem{{{3, 5, 7}, {2, 5, 5}, {0, 8, 1}}};
  const auto bottom = [&](std::string_view planner) {
    const std::vector<int64_t> offsets = find_planner(planner)->solve(problem).offsets;
    return std::min_element(offsets.begin(), offsets.end()) - offsets.begin();
  };
  EXPECT_EQ(bottom("first_fit"), 0);
  EXPECT_EQ(bottom("first_fit_area"), 1);
  EXPECT_EQ(bottom("first_fit_lifetime"), 2);
}

TEST(Planners, XlaCountsTheRoomBelowTheTopAsAHole) {
  // The last buffer has a hole of 2 below a fixed block, and of 1 below the top of the heap.
  Problem problem{{{0, 1, 6}, {1, 2, 1}, {1, 2, 2}, {1, 2, 1}}};
  problem.buffers[0].offset = 0;
  problem.buffers[1].offset = 0;
  problem.buffers[2].offset = 3;
  EXPECT_EQ(find_planner("best_fit")->solve(problem).offsets[3], 1);
  EXPECT_EQ(find_planner("xla")->solve(problem).offsets[3], 5);
}

TEST(Planners, XlaTakesTheLowerOfItsTwoOrders) {
  const Problem by_time{{{2, 4, 3}, {5, 6, 6}, {3, 9, 5}, {4, 5, 5}, {2, 3, 4}}};
  EXPECT_EQ(bytes_of("best_fit", by_time), 14);  // by size
  EXPECT_EQ(bytes_of("xla", by_time), 11);       // by lifetime
}

TEST(Planners, TfLitePutsWhatLivesThroughoutAtTheBottom) {
  const Problem problem{{{2, 5, 40}, {0, 9, 1}, {0, 4, 30}, {0, 9, 2}}};
  EXPECT_EQ(find_planner("tflite")->solve(problem).offsets, (std::vector<int64_t>{3, 0, 43, 1}));
}

TEST(Planners, LocalSearchIsNeverAboveWhereItBegan) {
  int gained = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Problem problem = random_problem(seed, 60, 40, 300);
    const int64_t begin = bytes_of("first_fit", problem), end = bytes_of("local_search", problem);
    EXPECT_LE(end, begin) << "seed " << seed;
    gained += end < begin;
  }
  EXPECT_GE(gained, 10);
}

TEST(Planners, PutABufferIntoTheGapOfAnother) {
  Problem problem{{{0, 10, 100}, {3, 7, 100}}};
  EXPECT_EQ(bytes_of("best", problem), 200);
  problem.buffers[0].gaps = {{3, 7}};
  EXPECT_EQ(lower_bound(problem), 100);
  for (const Planner* planner : planners()) {
    const int64_t wanted = planner->name() == "none" ? 200 : 100;
    EXPECT_EQ(planner->solve(problem).bytes, wanted) << planner->name();
  }
}

TEST(Planners, HintsBringAGoodPlanBack) {
  Problem problem = random_problem(3, 60, 40, 200);
  const Plan good = find_planner("best")->solve(problem);
  for (size_t i = 0; i < problem.buffers.size(); ++i) problem.buffers[i].hint = good.offsets[i];
  EXPECT_LE(bytes_of("best", problem), good.bytes);
}

TEST(Planners, TakeEmptyProblems) {
  for (const Planner* planner : planners()) {
    EXPECT_EQ(planner->solve({}), Plan()) << planner->name();
    EXPECT_EQ(planner->solve({{{5, 5, 10}, {0, 4, 0}}}).bytes, 0) << planner->name();
  }
}

TEST(Planners, AreFoundByName) {
  for (const Planner* planner : planners()) {
    EXPECT_EQ(find_planner(planner->name()), planner);
    EXPECT_FALSE(planner->explanation().empty());
  }
  EXPECT_EQ(find_planner("bset"), nullptr);
  EXPECT_EQ(
      planner_names(),
      "none, in_order, first_fit, first_fit_area, first_fit_lifetime, best_fit, skyline, xla, "
      "tflite, local_search, optimal, best");
}

TEST(LowerBound, IsTheLargestLiveSum) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Problem problem = random_problem(seed, 60, 40, 300, {.gaps = true, .empty = true});
    EXPECT_EQ(lower_bound(problem), bound_by_hand(problem)) << "seed " << seed;
  }
}

TEST(LowerBound, RoundsToAlignmentWhereSound) {
  Problem problem{{{0, 1, 10, 64}, {0, 1, 20, 128}, {0, 1, 30, 64}}};
  // Two sizes are rounded up, below the third: 64 + 64 + 30 is beaten by 64 + 64 + 10.
  EXPECT_EQ(lower_bound(problem), 64 + 64 + 10);
  problem.buffers[1].alignment = 1;
  EXPECT_EQ(lower_bound(problem), 60);
  EXPECT_EQ(unplanned_bytes({{{0, 1, 10}, {5, 6, 20, 64}}}), 84);
}

TEST(Malformed, NamesTheBuffer) {
  const auto fault = [](Interval buffer) {
    buffer.id = std::string(1, 'x');
    return malformed({{{0, 1, 1}, buffer}}).value_or("nothing");
  };
  EXPECT_EQ(fault({0, 1, -5}), "buffer 1 (x): its size must not be below 0, but it is -5");
  EXPECT_NE(fault({0, 1, 1, 0}).find("alignment must be at least 1"), std::string::npos);
  EXPECT_NE(fault({3, 1, 1}).find("lives in [3, 1)"), std::string::npos);
  EXPECT_NE(fault({0, 1, 1, 64, 10}).find("multiple of its alignment 64"), std::string::npos);
  EXPECT_NE(fault({0, 9, 1, 1, -1, {{4, 3}}}).find("one is [4, 3)"), std::string::npos);
  EXPECT_NE(fault({0, 9, 1, 1, -1, {{2, 5}, {4, 6}}}).find("one is [4, 6)"), std::string::npos);
  EXPECT_NE(fault({0, 1, INT64_MAX}).find("62 bits"), std::string::npos);
  EXPECT_NE(fault({0, 1, 1, 1, INT64_MAX}).find("62 bits"), std::string::npos);
  EXPECT_NE(fault({INT64_MIN, 1, 1}).find("62 bits"), std::string::npos);
  const int64_t huge = int64_t{1} << 61;
  EXPECT_NE(malformed({{{0, 1, huge}, {2, 3, huge}}}), std::nullopt);
}

// Real problems, each with a plan at the lower bound.
TEST(Planners, BestOnRealProblems) {
  const char* root = std::getenv("TESSERA_TEST_DATA");
  const std::filesystem::path folder = std::filesystem::path(root ? root : "") / "planner";
  if (root == nullptr || !std::filesystem::exists(folder)) {
    GTEST_SKIP() << "set TESSERA_TEST_DATA to a folder with planner/*.csv";
  }
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".csv") continue;
    const Problem problem = read_plan_csv_file(entry.path());
    const Solution solution = find_planner("best")->prove(problem);
    EXPECT_FALSE(check(problem, solution.plan)) << entry.path();
    EXPECT_EQ(solution.plan.bytes, lower_bound(problem)) << entry.path();
    EXPECT_EQ(solution.status, SolveStatus::kOptimal) << entry.path();
  }
}

}  // namespace
}  // namespace tessera
