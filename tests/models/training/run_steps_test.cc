// Which steps a run prepares.
#include "tessera/models/training/run_steps.h"

#include <gtest/gtest.h>

#include "tessera/models/config/config.h"
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
  return run_steps(config, data, purpose);
}

TEST(RunSteps, AreTheFullBatchAndTheLastOfAnEpoch) {
  EXPECT_EQ(steps_of(8, 40, 20).train, (Counts{8}));
  EXPECT_EQ(steps_of(8, 40, 20).evaluation, (Counts{8, 4}));
  EXPECT_EQ(steps_of(8, 41, 7).train, (Counts{8, 1}));
  EXPECT_EQ(steps_of(8, 41, 7).evaluation, (Counts{7}));  // no more than there are
  EXPECT_EQ(steps_of(8, 0, 0).train, (Counts{8}));        // not known yet
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
  EXPECT_EQ(run_steps(config, data, Purpose::training).evaluation, (Counts{8, 4, 3}));
  EXPECT_EQ(run_steps(config, data, Purpose::evaluation).evaluation, (Counts{8, 4}));
}

TEST(RunSteps, AreThoseOfThePurpose) {
  const RunSteps evaluation = steps_of(8, 40, 20, Purpose::evaluation);
  EXPECT_EQ(evaluation.train, Counts());
  EXPECT_EQ(evaluation.evaluation, (Counts{8, 4}));
  const RunSteps timing = steps_of(8, 5, 5, Purpose::timing);  // whatever data there are
  EXPECT_EQ(timing.train, (Counts{8}));
  EXPECT_EQ(timing.evaluation, Counts());
  const RunSteps verification = steps_of(7, 5, 5, Purpose::verification);
  EXPECT_EQ(verification.train, (Counts{7, 4}));
  EXPECT_EQ(verification.evaluation, (Counts{4}));
}

TEST(RunSteps, ASessionHasThemAllAndIsAskedForNoOther) {
  Config config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.batch = 8;
  config.data.train_count = 20;
  config.data.test_count = 5;
  const DataNeed data = known_data(config);
  const size_t before = cpu_memory().statistics().live_bytes;
  const auto session = prepared_session(config, data, Purpose::training);
  EXPECT_EQ(cpu_memory().statistics().live_bytes, before);
  const auto regions = session->regions();
  session->bind();
  EXPECT_EQ(static_cast<int64_t>(cpu_memory().statistics().live_bytes - before),
            total_bytes(regions));
  for (const int64_t count : {8, 4}) session->train_step(count);
  session->evaluation_step(5);
  EXPECT_EQ(session->regions().size(), regions.size());
}

}  // namespace
}  // namespace tessera
