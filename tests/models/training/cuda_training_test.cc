// Whole trainings on a GPU: the losses of the CPU, and the same bits in every mode, under every
// plan and after every interruption. Small enough for a simulated GPU.
#include <cmath>
#include <regex>

#include "tessera/memory/plan.h"
#include "tessera/models/study/evaluate_run.h"
#include "tessera/models/study/plan.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/models/training/run_files.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;

constexpr int64_t kSteps = 30;

class CudaTraining : public OnGpu {
 protected:
  // An epoch has five batches of four images and one of two; an evaluation follows.
  static Config config_of(const std::string& model) {
    Config config;
    config.seed = 3;
    config.threads = 2;
    config.gpu.tf32 = false;
    config.model.name = model;
    config.data.image_size = 16;
    config.data.batch = 4;
    config.data.train_count = 22;
    config.data.test_count = 10;
    config.data.workers = 1;
    config.optimizer.lr = 0.02;
    config.optimizer.nesterov = true;
    config.optimizer.weight_decay = 1e-4;
    config.train.steps = kSteps;
    config.train.log_every = {1, Duration::Unit::kSteps};
    config.checkpoint.every = {7, Duration::Unit::kSteps};
    config.checkpoint.keep = 9;
    return config;
  }
  // Batch norm, dropout and flips: running statistics and random numbers.
  static Config cnn() {
    Config config = config_of("cnn_bn");
    config.model.widths = {4, 4, 8, 8};
    config.model.dropout = 0.25;
    AugmentConfig flip;
    flip.kind = "flip";
    config.data.augment = {flip};
    return config;
  }

  TrainResult run(const std::string& name, const char* device, Config config,
                  const TrainOptions& options = {}) const {
    config.device = device;
    config.run.dir = temporary_.path(name);
    return train(
        config, [](const std::string&) {}, options);
  }
  std::vector<double> losses(const std::string& name) const {
    return losses_of(read_all(temporary_.path(name) + "/metrics.csv"));
  }
  void expect_same_losses(const std::string& name, const std::string& reference,
                          double apart = 1e-5) const {
    const std::vector<double> found = losses(name), right = losses(reference);
    ASSERT_EQ(found.size(), right.size());
    for (size_t i = 0; i < right.size(); ++i)
      EXPECT_LE(std::abs(found[i] - right[i]), apart * std::abs(right[i])) << "line " << i;
  }
  // Compares parameters, optimizer state, statistics and sums of losses.
  void expect_same_bits(const std::string& name, const std::string& reference) const {
    EXPECT_EQ(without_speed(read_all(temporary_.path(name) + "/metrics.csv")),
              without_speed(read_all(temporary_.path(reference) + "/metrics.csv")))
        << name;
    EXPECT_TRUE(values_after(temporary_.path(name), kSteps) ==
                values_after(temporary_.path(reference), kSteps))
        << name;
  }
  void expect_losses_of_the_cpu(const Config& config, double apart = 1e-5) const {
    run("cpu", "cpu:0", config);
    run("gpu", "gpu:0", config);
    ASSERT_EQ(losses("cpu").size(), 35u);
    expect_same_losses("gpu", "cpu", apart);
  }
  // Returns the tensors without the sums for lines of metrics.
  std::string values_of_tensors(const std::string& name, int64_t step) const {
    const std::string bytes = read_all(CheckpointFile(checkpoint_of(name, step)).path());
    std::string all;
    for (const SafeTensor& array :
         read_safetensors(MemorySource(std::as_bytes(std::span(bytes)))).tensors)
      if (array.name != kSealArray.name && !array.name.starts_with("training/"))
        all += array.name + bytes.substr(array.offset, array.bytes);
    return all;
  }
  std::string checkpoint_of(const std::string& name, int64_t step) const {
    return CheckpointFolder(checkpoints_path(temporary_.path(name))).path(step);
  }

  TemporaryFolder temporary_;

 private:
};

TEST_F(CudaTraining, LeNetHasTheLossesOfTheCpu) {
  Config config = config_of("lenet5");
  config.data.image_size = 28;
  expect_losses_of_the_cpu(config, 2e-5);  // 1.4e-5 after 34 steps, on a CPU with AVX2
}

TEST_F(CudaTraining, BatchNormDropoutAndFlipsHaveTheLossesOfTheCpu) {
  expect_losses_of_the_cpu(cnn());
}

TEST_F(CudaTraining, AdamWHasTheLossesOfTheCpu) {
  Config config = cnn();
  config.optimizer.name = "adamw";
  config.optimizer.lr = 1e-4;  // Adam's division amplifies rounding errors
  expect_losses_of_the_cpu(config);
}

// Twenty layers with batch norm over few values double a difference at each step. At lr 0.02 even
// the native and the Eigen kernels of the CPU agree for only 17 steps.
TEST_F(CudaTraining, ResNet20HasTheLossesOfTheCpu) {
  Config config = config_of("resnet20");
  config.optimizer.lr = 1e-4;
  expect_losses_of_the_cpu(config);
}

// The block of MobileNetV2. The whole network would end in images of one pixel here, whose batch
// norm amplifies rounding to 1e-4 in the first loss, also between kernels of the CPU.
TEST_F(CudaTraining, InvertedResidualsHaveTheLossesOfTheCpu) {
  const Config layers = parse_config(R"(model:
  classes: 10
  layers:
    - {conv: {filters: 8, kernel: 3, stride: 2, padding: 1, bias: false}}
    - batch_norm
    - relu6
    - residual:
      - {conv: {filters: 24, kernel: 1, bias: false}}
      - batch_norm
      - relu6
      - {conv: {filters: 24, kernel: 3, padding: 1, groups: 24, bias: false}}
      - batch_norm
      - relu6
      - {conv: {filters: 8, kernel: 1, bias: false}}
      - batch_norm
    - global_average_pool
    - {dropout: {probability: 0.2}}
    - {linear: {units: 10}}
)",
                                     "layers");
  Config config = config_of("");
  config.model = layers.model;
  expect_losses_of_the_cpu(config);
}

// Rounding to 16 bits amplifies differences in the order of sums. In float16 the loss scale grows
// twice; at one that makes gradients nearly overflow, only one of the devices might skip a step.
TEST_F(CudaTraining, SixteenBitsHaveTheLossesOfTheCpu) {
  for (const bool deep : {false, true})
    for (const Precision precision : {Precision::bf16, Precision::f16}) {
      Config config = deep ? config_of("resnet20") : cnn();
      config.optimizer.lr = 1e-4;
      config.precision = precision;
      config.train.loss_scale = 4096;
      config.train.loss_scale_interval = 12;
      const std::string name = config.precision.text() + (deep ? " deep" : "");
      run(name + " cpu", "cpu:0", config);
      run(name, "gpu:0", config);
      expect_same_losses(name, name + " cpu", precision == Precision::bf16 ? 0.01 : 0.002);
    }
}

TEST_F(CudaTraining, EagerAndGraphModeGiveTheSameBits) {
  for (const std::string name : {"sgd", "adamw", "bf16", "f16"}) {
    Config config = cnn();
    if (name == "bf16")
      config.precision = Precision::bf16;
    else if (name == "f16")
      config.precision = Precision::f16;
    else
      config.optimizer.name = name;
    run(name, "gpu:0", config);
    config.mode = Mode::kEager;
    run(name + " eager", "gpu:0", config);
    expect_same_bits(name + " eager", name);
  }
}

// Losses are read at once or one step late, independently of checkpoints and evaluations.
TEST_F(CudaTraining, LinesOfMetricsChangeNoBit) {
  Config config = cnn();
  const auto until = [](const std::string& csv, int64_t step) {  // the lines of `step`
    std::string lines;
    std::istringstream all(without_speed(csv));
    for (std::string line; std::getline(all, line);)
      if (line.find("," + std::to_string(step) + ",") != line.npos) lines += line + "\n";
    return lines;
  };
  run("each step", "gpu:0", config);
  const std::string right = read_all(temporary_.path("each step") + "/metrics.csv");
  for (const int64_t every : {0, 4}) {
    config.train.log_every = {static_cast<double>(every), Duration::Unit::kSteps};
    const std::string name = "every " + std::to_string(every);
    run(name, "gpu:0", config);
    for (const int64_t step : {7, 14, 21, 28, 30})
      EXPECT_TRUE(values_of_tensors(name, step) == values_of_tensors("each step", step))
          << name << ", step " << step;
    const std::string found = read_all(temporary_.path(name) + "/metrics.csv");
    for (const int64_t step : {6, 12, 30}) {
      EXPECT_NE(until(right, step), "");
      EXPECT_EQ(until(found, step), until(right, step)) << name;
    }
  }
}

TEST_F(CudaTraining, EveryPlannerGivesTheSameBits) {
  Config config = cnn();
  run("reference", "gpu:0", config);
  for (const Planner* planner : planners()) {
    config.memory.planner = planner->name();
    run(config.memory.planner, "gpu:0", config);
    expect_same_bits(config.memory.planner, "reference");
  }
}

TEST_F(CudaTraining, ResumedItHasTheBitsOfOneThatNeverStopped) {
  Config config = cnn();
  run("whole", "gpu:0", config);
  run("resumed", "gpu:0", config, {.resume = checkpoint_of("whole", 14)});
  EXPECT_TRUE(values_after(temporary_.path("resumed"), kSteps) ==
              values_after(temporary_.path("whole"), kSteps));
  config.mode = Mode::kEager;
  run("eager", "gpu:0", config, {.resume = checkpoint_of("whole", 21)});
  EXPECT_TRUE(values_after(temporary_.path("eager"), kSteps) ==
              values_after(temporary_.path("whole"), kSteps));
}

TEST_F(CudaTraining, ItsCheckpointsGoOnOnTheCpuAndTheOtherWayRound) {
  const Config config = cnn();
  run("gpu", "gpu:0", config);
  run("cpu", "cpu:0", config);
  run("gpu then cpu", "cpu:0", config, {.resume = checkpoint_of("gpu", 14)});
  run("cpu then gpu", "gpu:0", config, {.resume = checkpoint_of("cpu", 14)});
  expect_same_losses("gpu then cpu", "cpu then gpu");
  const std::vector<double> whole = losses("cpu"), part = losses("cpu then gpu");
  ASSERT_GE(part.size(), 16u);
  for (size_t i = 1; i <= 16; ++i)  // steps 15 to 30 with their evaluations
    EXPECT_LE(std::abs(part[part.size() - i] - whole[whole.size() - i]),
              1e-5 * std::abs(whole[whole.size() - i]));
}

TEST_F(CudaTraining, ItsWeightsEvaluateOnTheCpu) {
  const TrainResult trained = run("run", "gpu:0", cnn());
  const auto silent = [](const std::string&) {};
  for (const char* device : {"device=cpu", "device=gpu"}) {
    const TrainResult evaluated =
        evaluate_run({temporary_.path("run")}, {.overrides = {device}}, silent);
    EXPECT_EQ(evaluated.test_accuracy, trained.test_accuracy) << device;
    EXPECT_NEAR(evaluated.test_loss, trained.test_loss, 1e-5 * trained.test_loss) << device;
  }
}

TEST_F(CudaTraining, ItsPlansAreVerified) {
  Config config = cnn();
  config.device = "gpu:0";
  const VerifyResult result = verify_plan(config);
  EXPECT_EQ(result.steps, 9);
  EXPECT_LT(result.plan_bytes, result.arena_bytes);
  EXPECT_LT(result.arena_bytes, result.unplanned_bytes);
}

// Errors name the op that produced the first non-finite value: "matmul in fc1".
TEST_F(CudaTraining, WhatIsNotFiniteIsTracedToTheSameOpAsOnTheCpu) {
  Config config = config_of("lenet5");
  config.data.image_size = 28;
  config.optimizer.lr = 1e15;
  for (const int64_t every : {1, 0}) {
    config.train.log_every = {static_cast<double>(every), Duration::Unit::kSteps};
    const auto culprit = [&](const std::string& device) {
      try {
        run(device + std::to_string(every), device.c_str(), config);
      } catch (const DivergedError& error) {
        const std::string text = error.what();
        std::smatch found;
        EXPECT_TRUE(
            std::regex_search(text, found, std::regex("at step (\\d+) .*, (\\w+ in .*), produced")))
            << text;
        return found.str(1) + ": " + found.str(2);
      }
      return std::string("no error");
    };
    const std::string on_cpu = culprit("cpu:0");
    EXPECT_NE(on_cpu, "no error");
    EXPECT_EQ(culprit("gpu:0"), on_cpu) << every;
  }
}

}  // namespace
}  // namespace tessera
