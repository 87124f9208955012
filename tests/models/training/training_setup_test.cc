// A training needs exactly the memory that is predicted before it is set up.
#include "tessera/models/training/training_setup.h"

#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "tessera/layers/modules.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/session.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

using testing_checkpoint::TemporaryFolder;
using Holders = std::map<std::string, int64_t>;  // bytes by owner

struct Case {
  const char* name;
  std::function<void(Config&)> change;
};

const Case kCases[] = {
    {"a smaller last batch of both", [](Config&) {}},
    {"batches that come out even",
     [](Config& c) { c.data.train_count = 48, c.data.test_count = 32; }},
    {"fewer images than a batch", [](Config& c) { c.data.batch = 100; }},
    {"one image", [](Config& c) { c.data.batch = 1; }},
    {"no workers, no checkpoints", [](Config& c) { c.data.workers = 0, c.checkpoint.keep = 0; }},
    {"validation images of which some make a smaller batch",
     [](Config& c) { c.data.validation.percent = 15; }},
    {"as many validation images as a batch", [](Config& c) { c.data.validation.count = 16; }},
    {"mixed images", [](Config& c) { c.data.augment = {AugmentConfig{.kind = "mixup"}}; }},
    {"another model and optimizer",
     [](Config& c) { c.model.name = "cnn_bn", c.optimizer.name = "adamw"; }},
};

Holders held(const TrainingSetup& setup) {
  const DataSplit& data = setup.run.data();
  const auto holder = [&](const std::string& block) -> std::string {
    if (block.starts_with("loader of " + data.train->name())) return "loader of training";
    if (block.starts_with("loader of " + data.test->name())) return "loader of evaluation";
    if (data.validation != nullptr && block.starts_with("loader of " + data.validation->name()))
      return "loader of validation";
    for (const char* name : {"persistent", "arena", "slots", "checkpoint"})
      if (block == name) return block;
    return "data set";
  };
  Holders bytes;
  for (const MemoryItem& block : setup.blocks())
    bytes[holder(block.name)] += static_cast<int64_t>(block.bytes);
  return bytes;
}

// Returns the bytes from RawMemory, without the heap's lists of numbers and the data set.
int64_t raw_bytes(const TrainingSetup& setup) {
  int64_t sum = 0;
  for (const MemoryItem& block : setup.blocks())
    for (const char* name : {"persistent", "arena", "slots", ": batches", "checkpoint"})
      if (block.name.ends_with(name)) sum += static_cast<int64_t>(block.bytes);
  return sum;
}

TEST(TrainingSetup, HoldsWhatWasPlannedAndWhatItSays) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const TemporaryFolder folder;
    Config config;
    config.model.name = "lenet5";
    config.threads = 2;
    config.data.name = "synthetic";
    config.data.batch = 16;
    config.data.train_count = 45;
    config.data.test_count = 13;
    config.run.dir = folder.path("run");
    c.change(config);

    Holders planned;
    for (const MemoryItem& block : memory_need(config).blocks)
      planned[block.name] += static_cast<int64_t>(block.bytes);
    const auto before = static_cast<int64_t>(cpu_memory().statistics().live_bytes);
    const TrainingSetup setup = set_up_training(config, [](const std::string&) {}, {});
    EXPECT_EQ(held(setup), planned);
    EXPECT_EQ(static_cast<int64_t>(cpu_memory().statistics().live_bytes) - before,
              raw_bytes(setup));
  }
}

// A refusal comes before the run folder is touched.
TEST(TrainingSetup, ARefusalLeavesNothingBehind) {
  const TemporaryFolder folder;
  Config config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.train_count = config.data.test_count = 20;
  config.run.dir = folder.path("run");
  const auto before = cpu_memory().statistics();
  Config limited = config;
  limited.memory.limit = ByteSize{1000};
  EXPECT_THROW(set_up_training(limited, [](const std::string&) {}, {}), PlanInfeasible);
  EXPECT_EQ(cpu_memory().statistics().peak_bytes,
            before.peak_bytes);  // no session was bound
  config.model.classes = 2;
  EXPECT_THROW(set_up_training(config, [](const std::string&) {}, {}), ConfigError);
  EXPECT_FALSE(std::filesystem::exists(config.run.dir));
}

TEST(TrainingSetup, WhiteningFiltersAreMadeOfTheTrainingImages) {
  const TemporaryFolder folder;
  Config config = parse_config(R"(
model: {classes: 10, layers: [{whiten: {kernel: 2}}, global_average_pool, {linear: {units: 10}}]}
data: {name: synthetic, batch: 16, train_count: 45, test_count: 13}
train: {steps: 2}
)",
                               "a.yaml", {"run.dir=" + folder.path("run")});
  const auto filters = [](const TrainingSetup& setup) {
    return setup.run.session().store().find("whiten0.whitening").to_vector<float>();
  };
  const TrainingSetup setup = set_up_training(config, [](const std::string&) {}, {});
  const Dataset& data = *setup.run.data().train;
  std::vector<float> images;
  std::vector<uint8_t> image(static_cast<size_t>(data.shape().bytes()));
  for (int64_t i = 0; i < data.count(); ++i) {
    data.read(i, image.data());
    for (size_t k = 0; k < image.size(); ++k)
      images.push_back(
          (static_cast<float>(image[k]) / 255 - setup.run.normalization().mean[k % 3]) /
          setup.run.normalization().std[k % 3]);
  }
  const ImageShape shape = data.shape();
  EXPECT_EQ(filters(setup),
            whitening_filters(images, {45, shape.height, shape.width, 3}, 2, Whitening::kEps));
}

TEST(TrainingSetup, ATrainingBeginsWithTheWeightsOfAFile) {
  const TemporaryFolder folder;
  Config config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.train_count = config.data.test_count = 20;
  config.run.dir = folder.path("first");
  config.seed = 5;
  const std::string weights = folder.path("weights.safetensors");
  std::vector<float> values;
  {
    const TrainingSetup first = set_up_training(config, [](const std::string&) {}, {});
    first.run.session().save_weights(weights);
    values = first.run.session().store().find("fc1.weight").to_vector<float>();
  }
  config.seed = 6;
  config.model.weights = weights;
  config.run.dir = folder.path("second");
  std::string said;
  const TrainingSetup second =
      set_up_training(config, [&](const std::string& line) { said += line + "\n"; }, {});
  EXPECT_EQ(second.run.session().store().find("fc1.weight").to_vector<float>(), values);
  EXPECT_NE(said.find("weights: " + weights + ": 10 of 10 tensors"), std::string::npos) << said;
  EXPECT_NE(print_config(config).find("weights: " + weights), std::string::npos);
}

TEST(TrainingSetup, WeightsThatDoNotFitLeaveNothingBehind) {
  const TemporaryFolder folder;
  Config config;
  config.model.name = "lenet5";
  config.model.weights = folder.path("none.safetensors");
  config.data.name = "synthetic";
  config.data.train_count = config.data.test_count = 20;
  config.run.dir = folder.path("run");
  EXPECT_THROW(set_up_training(config, [](const std::string&) {}, {}), CheckpointError);
  std::ofstream(config.model.weights) << std::string("\2\0\0\0\0\0\0\0{}", 10);
  EXPECT_THROW(set_up_training(config, [](const std::string&) {}, {}), CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(config.run.dir));
}

}  // namespace
}  // namespace tessera
