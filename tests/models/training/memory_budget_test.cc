// memory.budget, as programs that use the library see it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/plan_report.h"
#include "tessera/graph/program.h"
#include "tessera/models/study/plan.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/training_setup.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

Config small() {
  Config config;
  config.model.name = "resnet20";
  config.data.name = "synthetic";
  config.data.batch = 8;
  config.data.train_count = 20;  // a smaller last batch
  config.data.test_count = 8;
  config.data.workers = 0;
  config.checkpoint.keep = 0;
  return config;
}

Config with_budget(int64_t bytes) {
  Config config = small();
  config.memory.budget = ByteSize{bytes};
  return config;
}

// Returns the minimum that a refusal names: "... (1234 bytes), whatever ...".
int64_t min_budget(const Config& config) {
  try {
    memory_need(config);
  } catch (const PlanInfeasible& error) {
    const std::string text = error.what();
    const size_t at = text.find("set memory.budget=");
    EXPECT_NE(at, text.npos) << text;
    EXPECT_EQ(error.exit_code(), 4);
    const size_t open = text.find('(');
    return std::stoll(text.substr(open + 1));
  }
  ADD_FAILURE() << "nothing was refused";
  return 0;
}

// model.txt and report.html contain this text.
TEST(Budget, TheSummarySaysWhatRunsAgain) {
  const auto summary = [](const Config& config) {
    const auto session = prepared_session({config, Purpose::training, DataNeed()});
    const Program& program = *session->train_step(config.data.batch).program();
    int recomputed = 0;
    for (const Node& node : program.compiled().graph.nodes) recomputed += node.recomputed;
    return std::pair(model_summary(program.compiled().graph, session->store().parameters()),
                     recomputed);
  };
  EXPECT_EQ(summary(small()).first.find(" recomputed"), std::string::npos);
  const auto [text, wanted] = summary(with_budget(memory_need(small()).bytes() * 3 / 4));
  int told = 0;
  for (size_t at = text.find(" recomputed\n"); at != text.npos;
       at = text.find(" recomputed\n", at + 1))
    told += std::stoi(text.substr(text.rfind(' ', at - 1)));
  EXPECT_GT(told, 0);
  EXPECT_EQ(told, wanted);
}

TEST(Budget, AllThatIsAskedForKeepsToIt) {
  const int64_t without = memory_need(small()).bytes();
  for (const int64_t budget : {without - 1, without * 9 / 10, without * 3 / 4}) {
    const MemoryNeed need = memory_need(with_budget(budget));
    EXPECT_LE(need.bytes(), budget);
    EXPECT_GT(need.report.budget.recomputed, 0);
    EXPECT_LE(need.report.budget.bound, need.report.budget.extra);
    EXPECT_NO_THROW(require_fit_ahead(with_budget(budget)));
  }
  const MemoryNeed enough = memory_need(with_budget(without));
  EXPECT_EQ(enough.bytes(), without);
  EXPECT_EQ(enough.report.budget.recomputed, 0);
}

TEST(Budget, ARefusalNamesTheSmallestThatWouldDo) {
  const int64_t least = min_budget(with_budget(1'000'000));
  EXPECT_LE(memory_need(with_budget(least)).bytes(), least);
  EXPECT_EQ(min_budget(with_budget(least - 1)), least);
}

TEST(Budget, ALargerOneNeverCostsMore) {
  const int64_t without = memory_need(small()).bytes(), least = min_budget(with_budget(1));
  int64_t before = INT64_MAX;
  for (int i = 0; i <= 20; ++i) {
    const int64_t budget = least + (without - least) * i / 20;
    const MemoryNeed need = memory_need(with_budget(budget));
    EXPECT_LE(need.bytes(), budget);
    EXPECT_LE(need.report.budget.extra, before) << budget;
    before = need.report.budget.extra;
  }
  EXPECT_EQ(before, 0);
}

// plan --max-batch, the line at the start of a training and the training itself agree.
TEST(Budget, TheLargestBatchIsTheOneThatRuns) {
  constexpr int64_t kLimit = int64_t{1} << 30;
  Config config = small();
  config.data.train_count = 200;
  config.memory.budget = ByteSize{memory_need(config).bytes()};
  Config kept = config;
  kept.memory.budget.reset();
  const int64_t without = largest_batch(kept, config.memory.budget->bytes);
  const int64_t most = largest_batch(config, kLimit);
  EXPECT_GT(most, without + 1);
  EXPECT_LT(most, largest_batch(kept, kLimit));
  const auto runs = [&](int64_t batch) {
    Config other = config;
    other.data.batch = batch;
    other.memory.limit = ByteSize{kLimit};
    return prepared_session(other) != nullptr;
  };
  EXPECT_TRUE(runs(most));
  EXPECT_THROW(runs(most + 1), PlanInfeasible);
  EXPECT_NE(headroom_text(config, 1).find(
                fmt::format("; data.batch could grow to {} within memory.budget", most)),
            std::string::npos)
      << headroom_text(config, 1);
}

// bench() times the step that would train.
TEST(Budget, TheStepThatIsTimedIsThatOfTheTraining) {
  const int64_t without = memory_need(small()).bytes();
  const Config config = with_budget(without * 3 / 4);
  const auto graph_for = [&](Purpose purpose) {
    const auto session = prepared_session({config, purpose});
    return session->train_step(8).compiled_graph()->graph.text();
  };
  const std::string trained = graph_for(Purpose::training);
  EXPECT_NE(trained.find(" recomputed\n"), trained.npos);
  EXPECT_EQ(graph_for(Purpose::timing), trained);
  EXPECT_EQ(bench(config, 3).losses, bench(small(), 3).losses);
}

TEST(Budget, WhatRunsAgainIsVerifiedAgainstARunWithoutAPlan) {
  const int64_t without = memory_need(small()).bytes();
  EXPECT_EQ(verify_plan(with_budget(without * 3 / 4), 4).steps, 4);
}

// The budget also holds for larger steps, and for a step that keeps an integer count.
TEST(Budget, HoldsForOtherWaysToTrain) {
  Config config = small();
  config.train.accumulate = 2;
  config.ema.decay = 0.9;
  config.eval.flip = true;
  config.optimizer.clip_norm = 1.0;
  const int64_t without = memory_need(config).bytes();
  config.memory.budget = ByteSize{without * 9 / 10};
  EXPECT_GT(memory_need(config).report.budget.recomputed, 0);
  EXPECT_EQ(verify_plan(config, 4).steps, 4);
}

TEST(Budget, ThePlanSaysWhatIsMadeAgain) {
  const int64_t without = memory_need(small()).bytes();
  const PlanReport report = plan(with_budget(without * 3 / 4));
  EXPECT_NE(report.text().find("nodes recomputed"), std::string::npos);
  EXPECT_NE(report.json().find("\"recomputed\":true"), std::string::npos);
  EXPECT_NE(report.why("recomputed").find(" recomputed"), std::string::npos);
  EXPECT_EQ(plan(small()).text().find("recomputed"), std::string::npos);
}

}  // namespace
}  // namespace tessera
