#include "tessera/memory/plan_check.h"

#include "random_problem.h"
#include <gtest/gtest.h>

namespace tessera {
namespace {

std::string fault_of(const Problem& problem, const Plan& plan) {
  const auto fault = check(problem, plan);
  return fault ? fault->text : "none";
}

// Compares every pair at every time: slow, and simple.
bool overlaps_by_hand(const Problem& problem, const Plan& plan) {
  const auto live = [](const Interval& b, int64_t time) {
    for (const Gap& gap : b.gaps) {
      if (gap.lower <= time && time < gap.upper) return false;
    }
    return b.lower <= time && time < b.upper;
  };
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const Interval& a = problem.buffers[i];
      const Interval& b = problem.buffers[j];
      if (a.size == 0 || b.size == 0) continue;
      if (plan.offsets[i] >= plan.offsets[j] + b.size) continue;
      if (plan.offsets[j] >= plan.offsets[i] + a.size) continue;
      for (int64_t t = std::max(a.lower, b.lower); t < std::min(a.upper, b.upper); ++t) {
        if (live(a, t) && live(b, t)) return true;
      }
    }
  }
  return false;
}

TEST(PlanCheck, NamesBuffersTimesAndBytes) {
  const Problem problem{{{0, 10, 100, 1, -1, {}, -1, "a"}, {5, 20, 50, 1, -1, {}, -1, "b"}}};
  const auto fault = check(problem, {{0, 60}, 200});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->first, 0);
  EXPECT_EQ(fault->second, 1);
  EXPECT_EQ(fault->text,
            "buffer 0 (a) at bytes [0, 100), live in [0, 10) and buffer 1 (b) at bytes [60, 110), "
            "live in [5, 20) share the bytes [60, 100) at time 5");
}

TEST(PlanCheck, LifetimesAreHalfOpen) {
  Problem problem{{{0, 5, 10}, {5, 9, 10}}};
  EXPECT_EQ(fault_of(problem, {{0, 0}, 10}), "none");
  problem.buffers[0].upper = 6;
  EXPECT_NE(fault_of(problem, {{0, 0}, 10}), "none");
  EXPECT_EQ(fault_of(problem, {{0, 10}, 20}), "none");
}

TEST(PlanCheck, CatchesWhatComesBackAfterAGap) {
  Problem problem{{{0, 10, 10, 1, -1, {{3, 6}}}, {3, 6, 10}}};
  EXPECT_EQ(fault_of(problem, {{0, 0}, 10}), "none");
  problem.buffers[1].upper = 7;
  EXPECT_NE(fault_of(problem, {{0, 0}, 10}).find("at time 6"), std::string::npos);
}

TEST(PlanCheck, LooksAtOffsetsCapacityAndBytes) {
  Problem problem{{{0, 5, 10, 8, -1, {}, -1, "a"}}};
  EXPECT_NE(fault_of(problem, {{}, 10}).find("1 buffers, but has 0"), std::string::npos);
  EXPECT_NE(fault_of(problem, {{-8}, 10}).find("at or above 0"), std::string::npos);
  EXPECT_NE(fault_of(problem, {{4}, 14}).find("multiple of 8"), std::string::npos);
  EXPECT_NE(fault_of(problem, {{8}, 17}).find("within the plan's 17 bytes"), std::string::npos);
  EXPECT_EQ(fault_of(problem, {{8}, 18}), "none");
  problem.capacity = 15;
  EXPECT_NE(fault_of(problem, {{8}, 18}).find("3 more than the capacity"), std::string::npos);
  problem.capacity = -1;
  problem.buffers[0].offset = 16;
  EXPECT_NE(fault_of(problem, {{8}, 18}).find("fixed offset 16"), std::string::npos);
}

TEST(PlanCheck, AgreesWithLookingAtEveryPair) {
  int wrong = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Problem problem = testing::random_problem(seed, 8, 20, 20, {.gaps = true, .empty = true});
    Plan plan{std::vector<int64_t>(8), 1000};
    for (size_t i = 0; i < 8; ++i) plan.offsets[i] = (seed * 37 + i * i * 53) % 90;
    const bool overlap = overlaps_by_hand(problem, plan);
    wrong += overlap;
    EXPECT_EQ(check(problem, plan).has_value(), overlap) << "seed " << seed;
  }
  EXPECT_GT(wrong, 30);
  EXPECT_LT(wrong, 270);
}

TEST(PlanCheck, CatchesEveryPlantedOverlap) {
  const Problem problem = testing::random_problem(11, 60, 40, 200);
  const Plan good = find_planner("best")->solve(problem);
  ASSERT_FALSE(check(problem, good));
  int planted = 0;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    Plan bad = good;
    bad.offsets[i] = std::max<int64_t>(0, good.offsets[i] - 1);
    const bool overlap = overlaps_by_hand(problem, bad);
    planted += overlap;
    EXPECT_EQ(check(problem, bad).has_value(), overlap) << "buffer " << i;
  }
  EXPECT_GT(planted, 20);
}

}  // namespace
}  // namespace tessera
