// memory.limit, as a program that uses the library meets it.
#include "tessera/models/training/memory_limit.h"

#include <gtest/gtest.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/training/bench.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

Config with_limit(int64_t bytes) {
  Config config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.batch = 8;
  config.memory.limit = ByteSize{bytes};
  return config;
}

TEST(Fit, ARefusalSaysWhatWouldFitAndNothingWasAskedOfTheMachine) {
  // A checkpoint holds the configuration: a limit of as many digits takes as many bytes.
  const int64_t need = memory_need(with_limit(99'999'999)).bytes();
  EXPECT_NO_THROW(require_fit(with_limit(need)));
  const RawMemoryStatistics before = cpu_memory().statistics();
  try {
    require_fit(with_limit(need - 1));
    FAIL();
  } catch (const PlanInfeasible& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(std::to_string(need)), text.npos) << text;
    EXPECT_NE(text.find("over by 1 B"), text.npos) << text;
    EXPECT_NE(text.find("data.batch"), text.npos) << text;
    EXPECT_EQ(error.exit_code(), 4);
  }
  EXPECT_THROW(bench(with_limit(1000), 1), OutOfMemory);  // which a refusal is one of
  EXPECT_THROW(open_fitting(with_limit(1000)), PlanInfeasible);
  EXPECT_EQ(cpu_memory().statistics().peak_bytes, before.peak_bytes);
}

TEST(Fit, ABatchOfAllImagesHasNoneToGrowBy) {
  Config config = with_limit(int64_t{1} << 30);
  config.data.train_count = config.data.batch = 64;
  const std::string text = headroom_text(config, known_data(config), 1);
  EXPECT_TRUE(text.ends_with("; data.batch is all images")) << text;
  config.data.batch = 8;
  EXPECT_NE(headroom_text(config, known_data(config), 1).find("could grow to all 64 images"),
            std::string::npos);
}

TEST(Fit, NothingIsPromisedOfEagerSteps) {
  Config config = with_limit(int64_t{1} << 30);
  config.memory.limit = {};
  config.mode = Mode::kEager;
  const std::string text = headroom_text(config, known_data(config), 1);
  EXPECT_EQ(text.find("could grow"), std::string::npos) << text;
  EXPECT_NE(text.find("eager steps ask for more"), std::string::npos) << text;
}

TEST(Fit, TheLargestBatchCountsTheLimitsOwnText) {
  Config config = with_limit(1);
  config.memory.limit.reset();
  config.data.train_count = 512;
  config.data.batch = 64;
  const int64_t without = memory_need(config).bytes();
  for (int64_t limit = without - 2; limit < without + 16; ++limit) {
    Config limited = config;
    limited.memory.limit = ByteSize{limit};
    limited.data.batch = largest_batch(config, limit);
    EXPECT_NO_THROW(require_fit(limited)) << limit;
  }
}

TEST(Fit, MoreImagesThanTheMachineHolds) {
  Config config = with_limit(1);
  config.memory.limit.reset();
  config.data.train_count = int64_t{1} << 32;
  try {
    open_fitting(config);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("data.train_count"), std::string::npos);
  }
}

TEST(Fit, AfterARefusalASmallerOneRuns) {
  const int64_t limit = memory_need(with_limit(99'999'999)).bytes() - 1;
  EXPECT_THROW(require_fit(with_limit(limit)), PlanInfeasible);
  Config smaller = with_limit(limit);
  smaller.data.batch = largest_batch(smaller, limit);
  EXPECT_LT(smaller.data.batch, 8);
  EXPECT_NO_THROW(require_fit(smaller));
  EXPECT_GT(bench(smaller, 2).images_per_second, 0);
}

TEST(Fit, SwappingIsSaidWithTheRemedy) {
  EXPECT_EQ(swap_text(0), "");
  const std::string text = swap_text(int64_t{3} << 20);
  EXPECT_NE(text.find("3.00 MiB of this process"), text.npos) << text;
  EXPECT_NE(text.find("memory.budget"), text.npos) << text;
}

}  // namespace
}  // namespace tessera
