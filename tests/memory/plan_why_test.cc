#include "tessera/memory/plan_why.h"

#include "random_problem.h"
#include <gtest/gtest.h>

#include "tessera/memory/plan_check.h"

namespace tessera {
namespace {

// At time 4: b at bytes 0 to 4, a hole of 1, c from 5 to 13, a hole of 1, d at 14.
const Problem kProblem{{{0, 2, 8, 1, -1, {}, -1, "a"},
                        {0, 5, 4, 1, -1, {}, -1, "b"},
                        {2, 5, 8, 1, -1, {}, -1, "c"},
                        {4, 6, 1, 1, -1, {}, -1, "d"}}};
const Plan kPlan{{4, 0, 5, 14}, 15};

TEST(PlanWhy, TellsTheFullestTimeAndWhoIsThere) {
  ASSERT_FALSE(check(kProblem, kPlan));
  const BufferExplanation story = why(kProblem, kPlan, 2, *find_planner("best"));
  EXPECT_EQ(story.peak_time, 4);
  EXPECT_EQ(story.load, 13);
  EXPECT_TRUE(story.makes_bound);
  EXPECT_EQ(story.beside, (std::vector<int>{1, 3}));
  EXPECT_FALSE(why(kProblem, kPlan, 0, *find_planner("best")).makes_bound);
}

TEST(PlanWhy, TellsTheNeighboursOfItsLifetimeOnly) {
  const BufferExplanation c = why(kProblem, kPlan, 2, *find_planner("best"));
  EXPECT_EQ(c.below, (std::vector<int>{1}));
  EXPECT_EQ(c.hole_below, 1);
  EXPECT_EQ(c.above, (std::vector<int>{3}));
  EXPECT_EQ(c.hole_above, 1);
  const BufferExplanation a = why(kProblem, kPlan, 0, *find_planner("best"));
  EXPECT_TRUE(a.above.empty());
  EXPECT_EQ(a.hole_above, 3);
  EXPECT_EQ(a.hole_below, 0);
}

TEST(PlanWhy, TellsWhatIsLeftWithoutIt) {
  const BufferExplanation c = why(kProblem, kPlan, 2, *find_planner("best"));
  EXPECT_EQ(c.bytes_without, 12);
  EXPECT_EQ(c.bound_without, 12);
}

TEST(PlanWhy, KnowsGaps) {
  Problem problem = kProblem;
  problem.buffers[1].gaps = {{3, 5}};
  const BufferExplanation c = why(problem, kPlan, 2, *find_planner("best"));
  EXPECT_EQ(c.peak_time, 2);
  EXPECT_EQ(c.load, 12);
  EXPECT_EQ(c.beside, (std::vector<int>{1}));
}

TEST(PlanWhy, SaysItInWords) {
  EXPECT_EQ(explanation_text(kProblem, kPlan, 2, *find_planner("best")),
            "c: 8 bytes at [5, 13)\n"
            "live        in [2, 5)\n"
            "peak        at time 4, when 13 bytes are live, 61.5 % of them in this buffer\n"
            "lower bound includes this buffer: at no time are more bytes live\n"
            "live then   b (4), d (1)\n"
            "below it    1 free bytes, then b (4)\n"
            "above it    1 free bytes, then d (1)\n"
            "without it  best needs 12 bytes instead of 15, and the lower bound is 12 instead of "
            "13\n");
}

// Compares with a loop over times and buffers.
TEST(PlanWhy, AgreesWithLookingAtEveryTime) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Problem problem = testing::random_problem(seed, 25, 30, 50, {.gaps = true});
    const Planner& planner = *find_planner("first_fit");
    const Plan plan = planner.solve(problem);
    const auto load_at = [&](int64_t time, int with) {
      int64_t load = 0;
      bool there = false;
      for (int i = 0; i < std::ssize(problem.buffers); ++i) {
        const Interval& b = problem.buffers[i];
        bool live = b.lower <= time && time < b.upper;
        for (const Gap& gap : b.gaps) live &= time < gap.lower || gap.upper <= time;
        if (live) load += b.size;
        there |= live && i == with;
      }
      return there ? load : 0;
    };
    for (int i = 0; i < 25; ++i) {
      const BufferExplanation story = why(problem, plan, i, planner);
      int64_t most = 0;
      for (int64_t time = 0; time < 70; ++time) most = std::max(most, load_at(time, i));
      EXPECT_EQ(story.load, most) << "seed " << seed << " buffer " << i;
      EXPECT_EQ(story.makes_bound, most == lower_bound(problem)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace tessera
