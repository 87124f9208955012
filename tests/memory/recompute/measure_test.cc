#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "tessera/memory/recompute/recompute.h"
#include "tessera/tests/memory/recompute/random_recompute.h"

namespace tessera {
namespace {

// a -> b, a -> c -> d; e reads c and d, f reads b and e.
RecomputeProblem small() {
  return {{{2, false, {}, "a"},
           {10, false, {}, "b"},
           {6, false, {}, "c"},
           {4, false, {}, "d"},
           {3, false, {}, "e"},
           {1, true, {}, "f"}},
          {{5, 0, {}, {0}, {}, true, false, "A"},
           {7, 0, {0}, {1}, {}, true, true, "B"},
           {1, 8, {0}, {2}, {}, true, false, "C"},
           {1, 0, {2}, {3}, {}, true, false, "D"},
           {1, 0, {3, 2}, {4}, {}, true, false, "E"},
           {1, 0, {4, 1}, {5}, {}, true, false, "F"}}};
}

TEST(RecomputeMeasure, CountsWhatIsLive) {
  const RecomputeProblem problem = small();
  const auto measured = measure(problem, once_each(problem));
  ASSERT_TRUE(measured);
  // At C: a and b, its result c, and scratch of 8.
  EXPECT_EQ(measured->live, (std::vector<int64_t>{2, 12, 26, 20, 23, 14}));
  EXPECT_EQ(measured->peak, 26);
  EXPECT_EQ(measured->highest, 2);
  EXPECT_EQ(measured->live_values, (std::vector<int>{1, 2, 0}));
  EXPECT_EQ(measured->cost, 16);
  EXPECT_EQ(base_cost(problem), 16);
}

TEST(RecomputeMeasure, FreesACopyAfterItsLastReader) {
  const RecomputeProblem problem = small();
  // Only F reads b, from the second run of B: the first copy is live during its own run, a stays.
  const auto measured = measure(problem, {0, 1, 2, 3, 4, 1, 5});
  ASSERT_TRUE(measured);
  EXPECT_EQ(measured->live, (std::vector<int64_t>{2, 12, 16, 12, 15, 15, 14}));
  EXPECT_EQ(measured->cost, 23);
}

TEST(RecomputeMeasure, CountsABlockThatIsTakenOnce) {
  RecomputeProblem problem = small();
  problem.values[4] = {4, false, {3}, "e"};  // in place of d, whose last use is here
  EXPECT_EQ(measure(problem, once_each(problem))->live[4], 20);
  problem.steps[5].reads.push_back(3);  // now d is read later
  EXPECT_EQ(measure(problem, once_each(problem))->live[4], 24);
}

TEST(RecomputeMeasure, KeepsWhatIsFromOutsideAndResults) {
  RecomputeProblem problem = small();
  problem.values.push_back({100, false, {}, "x"});
  problem.values[0].result = true;
  EXPECT_EQ(measure(problem, once_each(problem))->live,
            (std::vector<int64_t>{102, 112, 126, 122, 125, 116}));
  problem.values[1].bytes = 0;
  EXPECT_EQ(measure(problem, once_each(problem))->peak, 116);
}

TEST(RecomputeMeasure, RefusesWhatIsNoSequence) {
  RecomputeProblem problem = small();
  EXPECT_FALSE(measure(problem, {0, 1, 2, 3, 4}));        // F never runs
  EXPECT_FALSE(measure(problem, {0, 2, 1, 3, 4, 5}));     // not in order
  EXPECT_FALSE(measure(problem, {0, 1, 2, 3, 4, 5, 6}));  // no such step
  EXPECT_FALSE(measure(problem, {0, 1, 2, 3, 4, 5, -1}));
  problem.steps[1].recomputable = false;
  EXPECT_FALSE(measure(problem, {0, 1, 1, 2, 3, 4, 5}));  // B is not recomputable
  problem.steps[1].recomputable = true;
  problem.steps[3].recomputable = false;
  problem.steps[3].overwrites = {0};
  EXPECT_TRUE(measure(problem, {0, 1, 1, 2, 3, 4, 5}));
  EXPECT_FALSE(measure(problem, {0, 1, 2, 3, 1, 4, 5}));     // reads a, which D overwrote
  EXPECT_FALSE(measure(problem, {0, 1, 2, 3, 0, 1, 4, 5}));  // nor can A run again
}

std::string fault_of(const RecomputeProblem& problem) {
  const auto fault = malformed(problem);
  return fault ? fault->text : "none";
}

TEST(RecomputeMalformed, NamesStepAndValue) {
  const auto with = [](auto change) {
    RecomputeProblem problem = small();
    change(problem);
    return fault_of(problem);
  };
  using P = RecomputeProblem;
  EXPECT_EQ(with([](P&) {}), "none");
  EXPECT_EQ(with([](P& p) { p.values[1].bytes = -1; }), "value 'b': its size is below 0: -1");
  EXPECT_EQ(with([](P& p) { p.steps[2].cost = -5; }), "step 'C': its cost is below 0: -5");
  EXPECT_EQ(with([](P& p) { p.steps[2].scratch = -5; }), "step 'C': its scratch is below 0: -5");
  EXPECT_EQ(with([](P& p) { p.steps[2].reads = {9}; }),
            "step 'C': value 9 does not exist; the problem has 6 values");
  EXPECT_EQ(with([](P& p) { p.steps[2].makes = {1}; }),
            "step 'C': it makes value 'b', which step 'B' also makes");
  EXPECT_EQ(with([](P& p) { p.steps[2].makes = {2, 2}; }), "step 'C': it makes value 'c' twice");
  EXPECT_EQ(with([](P& p) { p.steps[1].reads = {4}; }),
            "step 'B': it reads value 'e' before step 'E' makes it");
  EXPECT_EQ(with([](P& p) { p.steps[1].reads = {1}; }),
            "step 'B': it reads value 'b' before this step makes it");
  EXPECT_EQ(with([](P& p) { p.steps[3].overwrites = {0}; }),
            "step 'D': it overwrites value 'a', so the step must not run again");
  EXPECT_EQ(with([](P& p) {
              p.steps[1].recomputable = false;
              p.steps[1].overwrites = {0};
            }),
            "step 'C': it reads value 'a' after step 'B' has overwritten it");
  EXPECT_EQ(with([](P& p) {
              p.steps[5].recomputable = false;
              p.steps[5].overwrites = {5};
            }),
            "step 'F': it overwrites value 'f' before the value is made");
  EXPECT_EQ(with([](P& p) { p.values[3].may_reuse = {1}; }),
            "value 'd': it may reuse value 'b', which step 'D' does not read");
  EXPECT_EQ(with([](P& p) { p.values[3].may_reuse = {2}; }),
            "value 'd': it may reuse value 'c', but their sizes differ: 4 and 6 bytes");
  const int64_t large = int64_t{1} << 61;
  EXPECT_EQ(with([&](P& p) { p.values[0].bytes = p.values[3].bytes = large; }),
            "value 'd': the sum of the sizes up to this value must fit 62 bits");
  EXPECT_EQ(with([&](P& p) { p.steps[0].cost = p.steps[3].cost = large; }),
            "step 'D': the sum of the costs up to this step must fit 62 bits");
  EXPECT_EQ(with([&](P& p) {
              p.values[0].bytes = large;
              p.steps[4].scratch = large;
            }),
            "step 'E': the sum of its scratch and all sizes must fit 62 bits");
}

RecomputePlan plan_of(const RecomputeProblem& problem, const StepSequence& runs) {
  RecomputePlan plan;
  plan.runs = runs;
  plan.status = SolveStatus::kFeasible;
  if (const auto measured = measure(problem, runs)) {
    plan.peak = measured->peak;
    plan.cost = measured->cost;
    plan.extra = plan.cost - base_cost(problem);
  }
  return plan;
}

TEST(RecomputeCheck, FindsWhatIsWrong) {
  RecomputeProblem problem = small();
  const auto fault = [&](const StepSequence& runs, auto change) {
    RecomputePlan plan = plan_of(problem, runs);
    change(plan);
    return check_recompute(problem, plan).value_or("none");
  };
  const auto same = [](RecomputePlan&) {};
  const StepSequence good = {0, 1, 2, 3, 4, 1, 5};
  EXPECT_EQ(fault(good, same), "none");
  EXPECT_EQ(fault({0, 1, 2, 3, 4}, same), "step 5 never runs");
  EXPECT_EQ(fault({0, 2, 1, 3, 4, 5}, same), "run 1 (step 2, C): step 1 has not run before it");
  EXPECT_EQ(fault({0, 7}, same), "run 1: step 7 does not exist");
  EXPECT_EQ(fault(good, [](RecomputePlan& p) { ++p.peak; }),
            "the peak is 16 bytes, but the plan has 17");
  EXPECT_EQ(fault(good, [](RecomputePlan& p) { ++p.extra; }),
            "the runs cost 23, of which 7 is extra, but the plan has 23 and 8");
  EXPECT_EQ(fault(good, [](RecomputePlan& p) { p.status = SolveStatus::kInfeasible; }),
            "the peak is 16 bytes of -1, but according to the status it does not fit");
  EXPECT_EQ(fault(good, [](RecomputePlan& p) { p.lowest = 17; }),
            "the peak of 16 bytes is below the lower bound of all peaks, 17");
  EXPECT_EQ(fault(good, [](RecomputePlan& p) { p.bound = 24; }),
            "the cost of 23 is below its bound, 24");
  problem.budget = 15;
  EXPECT_EQ(fault(good, same), "the peak is 16 bytes of 15, but according to the status it fits");
  problem.budget = -1;
  problem.steps[1].recomputable = false;
  EXPECT_EQ(fault(good, same), "run 5 (step 1, B): the step must not run again");
  problem.steps[1].recomputable = true;
  problem.steps[3].recomputable = false;
  problem.steps[3].overwrites = {0};
  EXPECT_EQ(fault(good, same), "run 5 (step 1, B): it reads value 0, which was overwritten");
}

// Random sequences, right and wrong: two counts that share no code agree.
TEST(RecomputeCheck, AgreesWithTheMeasureOnAnySequence) {
  int right = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const RecomputeProblem problem = random_recompute(seed, 3 + static_cast<int>(seed % 8));
    ASSERT_EQ(fault_of(problem), "none") << seed;
    std::mt19937 numbers(seed);
    StepSequence runs;
    for (int step = 0; step < std::ssize(problem.steps); ++step) {
      while (step > 0 && numbers() % 3 == 0) runs.push_back(static_cast<int>(numbers() % step));
      runs.push_back(step);
    }
    const RecomputePlan plan = plan_of(problem, runs);
    const bool measured = measure(problem, runs).has_value();
    const auto fault = check_recompute(problem, plan);
    EXPECT_EQ(measured, !fault) << seed << ": " << fault.value_or("measured nothing");
    right += measured ? 1 : 0;
  }
  EXPECT_GT(right, 500);
  EXPECT_LT(right, 1900);
}

}  // namespace
}  // namespace tessera
