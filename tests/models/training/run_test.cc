// Run: steps, session and device.
#include "tessera/models/training/run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/graph/compiled_graph.h"
#include "tessera/models/config/config.h"
#include "tessera/models/study/plan.h"
#include "tessera/models/training/session.h"

namespace tessera {
namespace {

using Counts = std::vector<int64_t>;

RunSteps steps_of(int64_t batch, int64_t train, int64_t test, Purpose purpose = Purpose::training) {
  Config config;
  config.data.batch = batch;
  DataNeed data;
  data.train_count = train;
  data.test_count = test;
  return Run(config, purpose, data).steps();
}

TEST(RunSteps, AreTheFullBatchAndTheLastOfAnEpoch) {
  EXPECT_EQ(steps_of(8, 40, 20).train, (Counts{8}));
  EXPECT_EQ(steps_of(8, 40, 20).evaluation, (Counts{8, 4}));
  EXPECT_EQ(steps_of(8, 41, 7).train, (Counts{8, 1}));
  EXPECT_EQ(steps_of(8, 41, 7).evaluation, (Counts{7}));  // all test images
  EXPECT_EQ(steps_of(8, 0, 0).train, (Counts{8}));        // unknown number
  EXPECT_EQ(steps_of(8, 0, 0).evaluation, (Counts{8}));
}

TEST(RunSteps, ValidationAddsTheBatchesThatTheTestSetHasNot) {
  Config config;
  config.data.batch = 8;
  config.data.validation.count = 11;
  DataNeed data;
  data.train_count = 40;
  data.test_count = 20;
  data.validation_count = 11;
  EXPECT_EQ(tessera::Run(config, Purpose::training, data).steps().evaluation, (Counts{8, 4, 3}));
  EXPECT_EQ(tessera::Run(config, Purpose::evaluation, data).steps().evaluation, (Counts{8, 4}));
}

TEST(RunSteps, EvaluationsTakeNoMoreThanAPartOfAnAccumulatedBatch) {
  Config config;
  config.data.batch = 10;
  config.train.accumulate = 3;  // parts of 3, 3 and 4
  DataNeed data;
  data.train_count = 40;
  data.test_count = 9;
  const auto counts = [&](Purpose purpose) {
    return tessera::Run(config, purpose, data).steps().evaluation;
  };
  EXPECT_EQ(counts(Purpose::training), (Counts{4, 1}));
  EXPECT_EQ(counts(Purpose::evaluation), (Counts{4, 1}));
  EXPECT_EQ(counts(Purpose::verification), (Counts{4}));
  EXPECT_EQ(tessera::Run(config, Purpose::training, data).steps().train, (Counts{10}));
  config.eval.batch = 6;
  EXPECT_EQ(counts(Purpose::training), (Counts{6, 3}));
  EXPECT_EQ(counts(Purpose::evaluation), (Counts{6, 3}));
  EXPECT_EQ(counts(Purpose::verification), (Counts{5}));
}

// The session of an accumulated training, whose evaluation of all images at once needs more memory.
TEST(RunSteps, TheBoundOfAPlanIsThatOfTheStepThatSetsTheArena) {
  Config config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.train_count = config.data.test_count = config.data.batch = 64;
  config.train.accumulate = 16;
  const PlanReport small = plan(config);
  EXPECT_EQ(small.arena_of, "");
  config.eval.batch = 64;
  const PlanReport large = plan(config);
  EXPECT_EQ(large.arena_of, "evaluation of 64 images");
  EXPECT_GT(large.arena, small.arena);
  const auto session = prepared_session(config);
  const CompiledGraph& evaluation = *session->evaluation_step(64).compiled_graph();
  EXPECT_EQ(large.arena, static_cast<int64_t>(evaluation.arena_bytes()));
  EXPECT_EQ(large.lower_bound, lower_bound(evaluation.problem()));
  EXPECT_NE(large.text().find("both of the evaluation of 64 images\n"), std::string::npos);
  EXPECT_NE(large.json().find("\"arena_of\":\"evaluation of 64 images\""), std::string::npos);
}

TEST(RunSteps, ParametersAreCountedTrainableAndFrozen) {
  Config config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  int64_t all = 0, conv1 = 0;
  const auto session = prepared_session(config);
  for (const Tensor& tensor : session->store().parameters()) {
    all += tensor.elements();
    if (tensor.impl()->storage->name.starts_with("conv1.")) conv1 += tensor.elements();
  }
  ASSERT_GT(conv1, 0);
  EXPECT_EQ(plan(config).trainable, all);
  EXPECT_EQ(plan(config).frozen, 0);
  config.train.freeze = {"conv1"};
  const PlanReport report = plan(config);
  EXPECT_EQ(report.trainable, all - conv1);
  EXPECT_EQ(report.frozen, conv1);
  EXPECT_NE(report.text().find(fmt::format("{} trainable, {} frozen\n", all - conv1, conv1)),
            std::string::npos);
  EXPECT_NE(report.json().find(fmt::format("\"parameters\":{{\"trainable\":{},\"frozen\":{}}}",
                                           all - conv1, conv1)),
            std::string::npos);
}

TEST(RunSteps, AreThoseOfThePurpose) {
  const RunSteps evaluation = steps_of(8, 40, 20, Purpose::evaluation);
  EXPECT_EQ(evaluation.train, Counts());
  EXPECT_EQ(evaluation.evaluation, (Counts{8, 4}));
  const RunSteps timing = steps_of(8, 5, 5, Purpose::timing);  // independent of the data
  EXPECT_EQ(timing.train, (Counts{8}));
  EXPECT_EQ(timing.evaluation, Counts());
  const RunSteps verification = steps_of(7, 5, 5, Purpose::verification);
  EXPECT_EQ(verification.train, (Counts{7, 4}));
  EXPECT_EQ(verification.evaluation, (Counts{4}));
}

std::string remarks(const std::string& text, int64_t images = 1000) {
  DataNeed data;
  data.train_count = images;
  std::string all;
  for (const std::string& line :
       config_notes({parse_config(text, "a.yaml"), Purpose::training, data}))
    all += line + "\n";
  return all;
}

TEST(RunSteps, WhatTheTrainingEndsBeforeIsSaid) {
  const std::string batch = "data: {batch: 100}\n";  // ten steps an epoch
  EXPECT_EQ(
      remarks(batch + "train: {epochs: 3}\nschedule: {name: cosine, warmup: 4ep}"),
      "schedule.warmup: is 40 steps, but the training has 30: the learning rate never reaches "
      "optimizer.lr; shorten the warm-up or train longer\n");
  EXPECT_EQ(remarks(batch + "train: {steps: 30}\nschedule: {name: cosine, warmup: 3ep}"), "");
  EXPECT_EQ(remarks(batch + "train: {steps: 30}\n"
                            "schedule: {name: multistep, milestones: [29st, 3ep]}"),
            "schedule.milestones: 3ep is step 30, but the training ends at step 30: gamma is not "
            "applied there; set a shorter duration or train longer\n");
  EXPECT_EQ(remarks(batch + "schedule: {name: step}"),
            "schedule.every: 30ep is step 300, but the training ends at step 100: gamma is not "
            "applied there; set a shorter duration or train longer\n");
  EXPECT_EQ(remarks(batch + "schedule: {name: step, every: 5ep}"), "");
  EXPECT_EQ(remarks("schedule: {name: step}", 0), "");  // unknown length of an epoch
}

TEST(RunSteps, LarsThatScalesNothingIsSaid) {
  EXPECT_NE(
      remarks("optimizer: {name: lars}").find("optimizer.weight_decay: is 0, but lars scales"),
      std::string::npos);
  EXPECT_EQ(remarks("optimizer: {name: lars, weight_decay: 1e-4}"), "");
  EXPECT_EQ(remarks("optimizer: {name: sgd}"), "");
}

TEST(RunSteps, ATrainingWithoutCheckpointsIsSaid) {
  EXPECT_NE(remarks("checkpoint: {keep: 0}").find("checkpoint.keep: is 0: no checkpoint is"),
            std::string::npos);
  EXPECT_EQ(remarks("checkpoint: {keep: 1, best: none}"), "");
}

TEST(RunSteps, ASessionHasThemAllAndIsAskedForNoOther) {
  Config config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.batch = 8;
  config.data.train_count = 20;
  config.data.test_count = 5;
  const size_t before = cpu_memory().statistics().live_bytes;
  const auto session = prepared_session(config);
  EXPECT_EQ(cpu_memory().statistics().live_bytes, before);
  const auto regions = session->regions();
  session->bind();
  EXPECT_EQ(static_cast<int64_t>(cpu_memory().statistics().live_bytes - before),
            total_bytes(regions));
  for (const int64_t count : {8, 4}) session->train_step(count);
  session->evaluation_step(5);
  EXPECT_EQ(session->regions().size(), regions.size());
}

TEST(Run, HasOneSessionUntilItsDataAreOpened) {
  Config config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.batch = 8;
  config.data.train_count = 20;
  config.data.test_count = 5;
  tessera::Run run(config);
  Session& session = run.session();
  EXPECT_EQ(&run.session(), &session);
  const tessera::Run larger = run.with([](Config& edited) { edited.data.batch = 16; });
  EXPECT_EQ(larger.steps().train, (Counts{16, 4}));
  EXPECT_EQ(run.steps().train, (Counts{8, 4}));
  EXPECT_NE(&larger.session(), &session);
  const std::weak_ptr<Storage> ended = session.store().parameters().front().impl()->storage;
  run.open({});
  EXPECT_TRUE(ended.expired());
  EXPECT_EQ(run.data_need(), data_need(run.data()));
  EXPECT_EQ(run.data().train->count(), 20);
}

TEST(Run, TheDeviceIsChosenOnceForAllRunsMadeOfOne) {
  const tessera::Run run{Config()};
  const tessera::Run timed = run.as(Purpose::timing), edited = timed.with([](Config&) {});
  EXPECT_EQ(&edited.choice(), &run.choice());
  EXPECT_EQ(&timed.choice(), &run.choice());
  EXPECT_NE(&tessera::Run{Config()}.choice(), &run.choice());
}

}  // namespace
}  // namespace tessera
