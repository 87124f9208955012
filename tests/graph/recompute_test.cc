// A budget for the arena: the integer problem agrees with lifetimes() of the graph, recomputation
// changes no bit, and plans keep to the budget or name the minimum.
#include <cstring>
#include <map>

#include <gtest/gtest.h>

#include "tessera/engine/structural.h"
#include "tessera/graph/arena_budget.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/lifetimes.h"
#include "tessera/graph/program.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/memory/plan_check.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::small_options;
using testing_zoo::Threads;
using testing_zoo::ZooStep;

// A graph after all passes, with the scratch of its kernels.
struct Lowered {
  Lowered(const std::string& model, int64_t batch, const CompileOptions& options = {})
      : step(model, small_options(model), batch), compiled(step.function(), options) {
    const Program& program = *compiled.prepare(step.specs()).program();
    graph = program.compiled().graph;
    for (const int block : program.compiled().lifetimes.scratch)
      scratch.push_back(block < 0 ? 0 : program.compiled().lifetimes.blocks[block].bytes);
  }
  int64_t live(const Graph& of, const std::vector<int64_t>& bytes, bool reuse = true) const {
    return lower_bound(lifetimes(of, bytes, reuse).problem());
  }

  ZooStep step;
  Compiled compiled;
  Graph graph;
  std::vector<int64_t> scratch;
};

const Planner& best() { return *find_planner("best"); }

class RecomputeOf : public testing::TestWithParam<const char*> {
 protected:
  const Threads threads_{2};
};

TEST_P(RecomputeOf, TheProblemIsWhatTheGraphNeeds) {
  const Lowered of(GetParam(), 4);
  for (const bool reuse : {true, false}) {
    const ProgramSteps steps = recompute_problem(of.graph, of.scratch, Device{}, reuse);
    ASSERT_FALSE(malformed(steps.problem)) << malformed(steps.problem)->text;
    const auto once = measure(steps.problem, once_each(steps.problem));
    ASSERT_TRUE(once);
    EXPECT_EQ(once->peak, of.live(of.graph, of.scratch, reuse)) << "reuse " << reuse;
  }
}

TEST_P(RecomputeOf, EachWayIsAGraphThatNeedsWhatItSays) {
  const Lowered of(GetParam(), 4);
  const ProgramSteps steps = recompute_problem(of.graph, of.scratch, Device{}, true);
  for (const char* strategy : {"cheap", "segments", "greedy"}) {
    int ways = 0;
    for (const StepSequence& runs : find_recompute_strategy(strategy)->candidates(steps.problem)) {
      const auto measured = measure(steps.problem, runs);
      if (!measured || ++ways % 4 != 0) continue;
      std::vector<int> nodes;
      for (const int step : runs) nodes.push_back(steps.nodes[step]);
      const Repeated repeated = repeat_nodes(of.graph, nodes);
      ASSERT_EQ(verify(repeated.graph), "") << strategy;
      std::vector<int64_t> scratch;
      for (const int node : repeated.origin) scratch.push_back(of.scratch[node]);
      ASSERT_EQ(of.live(repeated.graph, scratch), measured->peak) << strategy;
      const Lifetimes times = lifetimes(repeated.graph, scratch);
      std::vector<int> of_interval;
      const Problem problem = times.problem(&of_interval);
      const Plan plan = best().solve(problem);
      std::vector<int64_t> offsets(times.blocks.size(), 0);
      for (size_t i = 0; i < of_interval.size(); ++i) offsets[of_interval[i]] = plan.offsets[i];
      ASSERT_EQ(replay(repeated.graph, times, offsets), "") << strategy;
    }
  }
}

TEST_P(RecomputeOf, NothingAgainIsTheSameGraph) {
  const Lowered of(GetParam(), 2);
  std::vector<int> nodes;
  for (size_t n = 0; n < of.graph.nodes.size(); ++n)
    if (!of.graph.nodes[n].only_views()) nodes.push_back(static_cast<int>(n));
  const Repeated repeated = repeat_nodes(of.graph, nodes);
  EXPECT_EQ(verify(repeated.graph), "");
  EXPECT_EQ(repeated.graph.values.size(), of.graph.values.size());
  EXPECT_EQ(repeated.graph.nodes.size(), of.graph.nodes.size());
  EXPECT_EQ(repeated.graph.outputs, of.graph.outputs);
}

INSTANTIATE_TEST_SUITE_P(Zoo, RecomputeOf,
                         testing::Values("lenet5", "resnet20", "resnet18", "resnet50",
                                         "densenet_bc", "mobilenet_v2", "vgg11_bn", "alexnet"));

// Returns losses and counts of some steps, then all persistent values.
std::vector<float> train(const std::string& model, const ModelOptions& network, int64_t batch,
                         const CompileOptions& options, int64_t steps, int64_t* arena = nullptr) {
  ZooStep step(model, network, batch);
  Compiled compiled(step.function(), options);
  std::vector<float> seen;
  for (int64_t i = 0; i < steps; ++i)
    for (const Tensor& result : compiled.call(step.arguments(i)))
      seen.push_back(result.item<float>());
  for (const float value : step.values()) seen.push_back(value);
  if (arena) *arena = static_cast<int64_t>(compiled.step(0).compiled_graph()->arena_bytes());
  return seen;
}

int64_t min_arena(const std::string& model, const ModelOptions& network, int64_t batch,
                  const CompileOptions& options) {
  ZooStep step(model, network, batch);
  CompileOptions none = options;
  none.arena_budget = 0;
  try {
    Compiled(step.function(), none).prepare(step.specs());
  } catch (const BudgetTooSmall& error) {
    return error.minimum();
  }
  return 0;
}

// The arena keeps to the budget to the byte; else the minimum in the error is reached exactly.
TEST(Budgets, AreKeptToOrRefusedWithWhatWouldDo) {
  const Threads threads(2);
  const int cases = std::getenv("TESSERA_LONG_TESTS") ? 1000 : 25;
  const std::vector<std::string>& models = model_names();
  uint64_t drawn = 0;
  const auto below = [&](size_t n) { return golden::splitmix64(++drawn) % n; };
  int kept = 0, refused = 0;
  for (int i = 0; i < cases; ++i) {
    const std::string& model = models[below(models.size())];
    const auto batch = static_cast<int64_t>(1 + below(8));
    ZooStep step(model, small_options(model), batch);
    const auto arena_within = [&](int64_t budget) {
      Compiled compiled(step.function(), {.arena_budget = budget});
      return static_cast<int64_t>(compiled.prepare(step.specs()).compiled_graph()->arena_bytes());
    };
    const int64_t without = arena_within(-1);
    const int64_t budget = without / 4 + static_cast<int64_t>(below(static_cast<size_t>(without)));
    try {
      EXPECT_LE(arena_within(budget), budget) << model << ", batch " << batch;
      ++kept;
    } catch (const BudgetTooSmall& error) {
      EXPECT_GT(error.minimum(), budget);
      EXPECT_EQ(arena_within(error.minimum()), error.minimum()) << model << ", batch " << batch;
      ++refused;
    }
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(refused, 0);
}

struct Case {
  const char* model;
  ModelOptions options;
  int64_t batch;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

class BudgetedTraining : public testing::TestWithParam<Case> {};

TEST_P(BudgetedTraining, HasTheSameBitsWithinEveryBudget) {
  const auto& [model, network, batch] = GetParam();
  const bool all = std::getenv("TESSERA_LONG_TESTS") != nullptr;
  const int64_t steps = all ? 50 : 3;
  const int budgets = all ? 20 : 2;
  int64_t without = 0;
  const std::vector<float> expected = train(model, network, batch, {}, steps, &without);
  for (const char* planner : {"best", "first_fit"}) {
    for (const int count : {1, 2}) {
      const Threads threads(count);
      CompileOptions options{.planner = find_planner(planner)};
      const int64_t least = min_arena(model, network, batch, options);
      ASSERT_GT(least, 0);
      for (int i = 0; i < budgets; ++i) {
        options.arena_budget = least + (without - least) * i / budgets;
        int64_t arena = 0;
        const std::vector<float> seen = train(model, network, batch, options, steps, &arena);
        EXPECT_LE(arena, options.arena_budget) << planner << ", budget " << i;
        ASSERT_EQ(seen.size(), expected.size());
        EXPECT_EQ(std::memcmp(seen.data(), expected.data(), seen.size() * sizeof(float)), 0)
            << planner << ", " << count << " threads, budget " << options.arena_budget;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, BudgetedTraining,
    testing::Values(Case{"lenet5", {.height = 28, .width = 28, .channels = 1}, 8},
                    Case{"resnet20", {}, 4}, Case{"densenet_bc", {.depth = 22}, 2},
                    Case{"wide_resnet", {.dropout = 0.3, .depth = 10, .widen = 1}, 2},
                    Case{"mobilenet_v2", {}, 2}, Case{"resnet18_cifar", {}, 2}));

}  // namespace
}  // namespace tessera
