// memory.limit, as programs that use the library see it.
#include "tessera/models/training/memory_limit.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/run.h"
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

void open_fitting(const Config& config) {
  Run run(config);
  run.open({});
  require_fit(run);
}

TEST(Fit, ARefusalSaysWhatWouldFitAndNothingWasAskedOfTheMachine) {
  // A checkpoint contains the configuration: limits with equally many digits need equal bytes.
  const int64_t need = memory_need(with_limit(99'999'999)).bytes();
  EXPECT_NO_THROW(require_fit_ahead(with_limit(need)));
  const RawMemoryStatistics before = cpu_memory().statistics();
  try {
    require_fit_ahead(with_limit(need - 1));
    FAIL();
  } catch (const PlanInfeasible& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find(std::to_string(need)), text.npos) << text;
    EXPECT_NE(text.find("over by 1 B"), text.npos) << text;
    EXPECT_NE(text.find("data.batch"), text.npos) << text;
    EXPECT_EQ(error.exit_code(), 4);
  }
  EXPECT_THROW(bench(with_limit(1000), 1), OutOfMemory);  // PlanInfeasible is an OutOfMemory
  EXPECT_THROW(open_fitting(with_limit(1000)), PlanInfeasible);
  EXPECT_EQ(cpu_memory().statistics().peak_bytes, before.peak_bytes);
}

TEST(Fit, ABatchOfAllImagesHasNoneToGrowBy) {
  Config config = with_limit(int64_t{1} << 30);
  config.data.train_count = config.data.batch = 64;
  const std::string text = headroom_text(config, 1);
  EXPECT_TRUE(text.ends_with("; data.batch already has all images")) << text;
  config.data.batch = 8;
  EXPECT_NE(headroom_text(config, 1).find("could grow to all 64 images"), std::string::npos);
}

TEST(Fit, NothingIsPromisedOfEagerSteps) {
  Config config = with_limit(int64_t{1} << 30);
  config.memory.limit = {};
  config.mode = Mode::kEager;
  const std::string text = headroom_text(config, 1);
  EXPECT_EQ(text.find("could grow"), std::string::npos) << text;
  EXPECT_NE(text.find("eager steps allocate more"), std::string::npos) << text;
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
    EXPECT_NO_THROW(require_fit_ahead(limited)) << limit;
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
  EXPECT_THROW(require_fit_ahead(with_limit(limit)), PlanInfeasible);
  Config smaller = with_limit(limit);
  smaller.data.batch = largest_batch(smaller, limit);
  EXPECT_LT(smaller.data.batch, 8);
  EXPECT_NO_THROW(require_fit_ahead(smaller));
  EXPECT_GT(bench(smaller, 2).images_per_second, 0);
}

// Returns a random training and a limit that is too small for it.
Config random_refused(std::mt19937& draw) {
  const auto pick = [&](int count) {
    return static_cast<int>(draw() % static_cast<unsigned>(count));
  };
  Config config = with_limit(1);
  config.model.name = std::array{"lenet5", "cnn_bn", "mlp", "resnet20"}[pick(4)];
  if (config.model.name == "cnn_bn") config.model.widths = {8, 8, 16, 16};
  if (config.model.name == "mlp") config.model.widths = {64, 32};
  config.data.batch =
      std::array{6, 8, 12, 16, 24, 32, 36}[pick(config.model.name == "resnet20" ? 4 : 7)];
  config.data.train_count = config.data.batch * 3 + pick(2) * 5;
  config.data.test_count = 16;
  config.data.workers = pick(3);
  config.checkpoint.keep = pick(2);
  config.memory.limit = ByteSize{99'999'999};
  const double part = 0.3 + 0.69 * pick(1000) / 1000;
  const auto need = static_cast<double>(memory_need(config).bytes());
  config.memory.limit = ByteSize{static_cast<int64_t>(part * need)};
  return config;
}

// Returns `config` with the overrides of a line to paste.
Config pasted(const Config& config, const std::string& overrides) {
  std::vector<std::string> words;
  std::istringstream in(overrides);
  for (std::string word; in >> word;) words.push_back(word);
  return parse_config(print_config(config), "test.yaml", words);
}

// Plans all candidates that change no more than `changes` allows. Returns the price of the cheapest
// that fits.
double best_price(const Config& config, const DataNeed& data, Remedy::Changes changes) {
  const int64_t limit = config.memory.limit->bytes;
  BatchSearch search(config);
  const double now = search.need(config).time;
  double best = INFINITY;
  for (const auto& [words, price] : {std::pair("", 0.0),
                                     {"data.prefetch=1", 0.01},

                                     {"data.workers=0", 0.05},
                                     {"checkpoint.keep=0", 0.1},
                                     {"checkpoint.keep=0 data.prefetch=1", 0.11},
                                     {"checkpoint.keep=0 data.workers=0", 0.15}}) {
    Config saved;
    try {
      saved = pasted(config, words);
    } catch (const Error&) {  // no effect
      continue;
    }
    const auto look = [&, price = price](const Config& other) {
      const BatchSearch::Need need = search.need(other);
      if (need.bytes <= limit) best = std::min(best, need.time / now - 1 + price);
    };
    look(saved);
    if (changes == Remedy::Changes::nothing) {
      Config other = saved;
      other.memory.budget = ByteSize{limit};
      try {
        const MemoryNeed need = memory_need({other, Purpose::training, data});
        EXPECT_LE(need.bytes(), limit);
        best = std::min(best, need.report.budget.overhead() + price);
      } catch (const PlanInfeasible&) {
      }
    }
    for (int64_t parts = 2; changes == Remedy::Changes::sums && parts <= saved.data.batch;
         ++parts) {
      Config other = saved;
      other.train.accumulate = static_cast<int>(parts);
      const int64_t planning = search.need(config).nodes * parts * kPlanningBytes;
      if (saved.data.batch % parts == 0 && planning <= std::max<int64_t>(limit, 5 << 20) / 4 * 3)
        look(other);
    }
    for (int64_t batch = saved.data.batch / 2; changes == Remedy::Changes::training && batch > 0;
         batch /= 2) {
      Config other = saved;
      other.data.batch = batch;
      look(other);
    }
  }
  return best;
}

// TESSERA_LONG_TESTS=1 tests 200 of them.
TEST(Fit, EveryRemedyOfARefusalFitsAndTheFirstIsNearlyTheBestThereIs) {
  std::mt19937 draw(38);
  std::map<std::string, int> offered;
  const int cases = std::getenv("TESSERA_LONG_TESTS") != nullptr ? 200 : 25;
  for (int i = 0; i < cases; ++i) {
    const Config config = random_refused(draw);
    const DataNeed data = tessera::Run(config).data_need();
    const std::vector<Remedy> list = remedies(config, config.memory.limit->bytes, false, 1e9);
    SCOPED_TRACE(fmt::format("case {}: {} batch {} limit {}", i, config.model.name,
                             config.data.batch, config.memory.limit->bytes));
    for (const Remedy& remedy : list) {
      const Config with = pasted(config, remedy.overrides);
      EXPECT_NO_THROW(require_fit_ahead(with)) << remedy.overrides;
      EXPECT_EQ(memory_need(with).bytes(), remedy.bytes) << remedy.overrides;
      ++offered[remedy.overrides.substr(0, remedy.overrides.find('='))];
    }
    using Changes = Remedy::Changes;
    for (const Changes changes : {Changes::nothing, Changes::sums, Changes::training}) {
      const double best = best_price(config, data, changes);
      if (!list.empty() && list.front().changes == changes) {
        EXPECT_LE(1 + list.front().price, 1.1 * (1 + best)) << list.front().overrides;
        break;
      }
      EXPECT_EQ(best, INFINITY) << "a remedy that changes less was not found";
    }
  }
  for (const char* key : {"memory.budget", "train.accumulate", "data.batch", "checkpoint.keep"})
    EXPECT_GT(offered[key], cases / 10) << key;
}

TEST(Fit, ARefusalOffersToComputeAgainAndToAccumulate) {
  Config config = with_limit(99'999'999);
  config.model.name = "resnet20";
  config.data.batch = 64;
  config.data.train_count = config.data.test_count = 64;
  config.memory.limit = ByteSize{memory_need(config).bytes() * 7 / 10};
  try {
    require_fit_ahead(config);
    ADD_FAILURE() << "fits";
  } catch (const PlanInfeasible& refusal) {
    EXPECT_NE(std::string(refusal.what()).find("\n  memory.budget="), std::string::npos);
  }
  // Slow builds get the time for all plans too; a refusal has kRemedySeconds.
  const std::string text = "\n" + remedies_text(config, config.memory.limit->bytes, false, 1e9);
  const size_t budget = text.find("\n  memory.budget="), parts = text.find("\n  train.accumulate="),
               batch = text.find("\n  data.batch=");
  EXPECT_LT(budget, parts) << text;  // the smallest change comes first
  EXPECT_LT(parts, batch) << text;
  EXPECT_LT(batch, text.npos) << text;
  EXPECT_NE(text.find("% time  same bits\n"), text.npos) << text;
  EXPECT_NE(text.find("another sum; norms see "), text.npos) << text;
}

TEST(Fit, ARefusalForTheSakeOfEvaluationsOffersTheirBatch) {
  Config config = with_limit(99'999'999);
  const int64_t enough = memory_need(config).bytes();
  config.eval.batch = 512;
  config.memory.limit = ByteSize{10'000'000 + enough};
  ASSERT_GT(memory_need(config).bytes(), config.memory.limit->bytes);
  const std::vector<Remedy> list = remedies(config, config.memory.limit->bytes, false);
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list.front().overrides, "eval.batch=0");
  EXPECT_NO_THROW(require_fit_ahead(pasted(config, list.front().overrides)));
}

TEST(Fit, SwappingIsSaidWithTheRemedy) {
  EXPECT_EQ(swap_text(0), "");
  const std::string text = swap_text(int64_t{3} << 20);
  EXPECT_NE(text.find("3.00 MiB of this process"), text.npos) << text;
  EXPECT_NE(text.find("memory.budget"), text.npos) << text;
}

}  // namespace
}  // namespace tessera
