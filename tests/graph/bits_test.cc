// Results are bit-identical in every mode: eager or graph, every planner, each pass off, any number
// of threads and of loader workers, AVX2 or AVX-512. TESSERA_LONG_TESTS=1 runs 50 steps everywhere.
#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "tessera/graph/lower.h"
#include "tessera/memory/plan.h"
#include "tessera/models/config/optimizers.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/data/sets/synthetic.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/tests/engine/same_bits.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::Threads;
using testing_zoo::ZooStep;

struct Case {
  const char* model;
  ModelOptions options;
  int64_t batch;
  int64_t steps;
  DType precision = DType::f32;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.model; }

const Case kCases[] = {
    {"lenet5", {.height = 28, .width = 28, .channels = 1}, 8, 50},
    {"cnn_bn",
     {.height = 14, .width = 14, .channels = 3, .dropout = 0.3, .widths = {8, 8, 16, 16}},
     8,
     50},
    {"resnet20", {}, 4, 12},
    {"lenet5", {.height = 28, .width = 28, .channels = 1}, 8, 20, DType::bf16},
    {"cnn_bn",
     {.height = 14, .width = 14, .channels = 3, .dropout = 0.3, .widths = {8, 8, 16, 16}},
     8,
     20,
     DType::f16},
    {"resnet20", {}, 4, 6, DType::bf16},
    {"mobilenet_v2", {.height = 32, .width = 32, .channels = 3}, 4, 3, DType::bf16}};

bool long_tests() { return std::getenv("TESSERA_LONG_TESTS") != nullptr; }

// Returns the loss and the number of correct answers of each step, then all persistent values.
std::vector<float> train(const Case& c, const CompileOptions& options, int64_t steps) {
  ZooStep step(c.model, c.options, c.batch, c.precision);
  Compiled compiled(step.function(), options);
  std::vector<float> seen;
  for (int64_t i = 0; i < steps; ++i)
    for (const Tensor& result : compiled.call(step.arguments(i)))
      seen.push_back(result.item<float>());
  const std::vector<float> values = step.values();
  seen.insert(seen.end(), values.begin(), values.end());
  return seen;
}

// Reports the first difference in bits, so that NaN and -0 count too.
testing::AssertionResult same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size())
    return testing::AssertionFailure() << a.size() << " values against " << b.size();
  if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0)
    return testing::AssertionSuccess();
  size_t first = 0;
  while (std::memcmp(&a[first], &b[first], sizeof(float)) == 0) ++first;
  return testing::AssertionFailure()
         << "value " << first << " of " << a.size() << ": " << a[first] << " against " << b[first];
}

class Bits : public testing::TestWithParam<Case> {
 protected:
  int64_t steps() const { return long_tests() ? 50 : GetParam().steps; }
  std::vector<float> eager() const {
    CompileOptions options;
    options.eager = true;
    return train(GetParam(), options, steps());
  }
};

TEST_P(Bits, EagerAndEveryPlannerAgree) {
  const std::vector<float> expected = eager();
  // The weights changed: runs that do nothing would also agree.
  ASSERT_FALSE(same_bits(expected, train(GetParam(), {.eager = true}, 0)));
  for (const Planner* planner : planners()) {
    CompileOptions graph;
    graph.planner = planner;
    graph.verify_plan = true;
    EXPECT_TRUE(same_bits(train(GetParam(), graph, steps()), expected)) << planner->name();
  }
}

TEST_P(Bits, EagerAndGraphWithoutEachPassAgree) {
  const std::vector<float> expected = eager();
  const std::vector<std::string> passes = pass_names();
  ASSERT_EQ(passes.size(), 14u);
  for (const std::string& pass : passes) {
    CompileOptions graph;
    graph.disabled_passes = {pass};
    graph.verify_plan = true;
    EXPECT_TRUE(same_bits(train(GetParam(), graph, steps()), expected)) << "without " << pass;
  }
  CompileOptions graph;
  graph.disabled_passes = passes;
  EXPECT_TRUE(same_bits(train(GetParam(), graph, steps()), expected)) << "without all passes";
}

TEST_P(Bits, TheNumberOfThreadsChangesNothing) {
  const std::vector<float> expected = eager();
  for (int count : {1, 2, 4}) {
    const Threads threads(count);
    EXPECT_TRUE(same_bits(train(GetParam(), {}, steps()), expected)) << count << " threads";
    if (count == 2) continue;  // usually the threads of `expected`
    EXPECT_TRUE(same_bits(eager(), expected)) << "eager, " << count << " threads";
  }
}

TEST_P(Bits, SoItIsWithEigensKernels) {
  std::vector<float> expected;
  {
    const SettingsScope eigen({.cpu = {.kernels = CpuKernels::eigen}});
    expected = eager();
    for (int count : {1, 2, 3}) {
      const Threads threads(count);
      EXPECT_TRUE(same_bits(train(GetParam(), {.verify_plan = true}, steps()), expected))
          << count << " threads";
    }
  }
  EXPECT_EQ(has_native_kernels(), !same_bits(eager(), expected));
}

INSTANTIATE_TEST_SUITE_P(Zoo, Bits, testing::ValuesIn(kCases), [](const auto& info) {
  const Case& c = info.param;
  const bool half = is_half(c.precision);
  return c.model + (half ? "_" + std::string(name_of(c.precision)) : "");
});

// Trains a session like the trainer: shuffled, cropped and flipped images from a loader, and a
// smaller batch at the end of each epoch.
std::vector<float> train_session(const Config& config, int workers, int64_t steps) {
  constexpr int64_t kImages = 28;
  LoaderOptions options;
  options.batch = config.data.batch;
  options.shuffle = true;
  options.seed = config.seed;
  options.workers = workers;
  options.augment = {crop(4), flip_horizontal()};
  Loader loader(synthetic(5, SyntheticSplit::kTrain, kImages), options);
  Session session(config, Device{}, loader.shape(), loader.dataset().normalization());
  std::vector<float> seen;
  for (int64_t i = 0; i < steps; ++i) {
    const Batch& batch = loader.next();
    CompiledStep& step = session.train_step(batch.count);
    Tensor images = step.input(0), labels = step.input(1), lr = step.input(2);
    Tensor position = step.input(3);
    images.assign(
        std::span(batch.images, static_cast<size_t>(batch.count * loader.shape().bytes())));
    labels.assign(std::span(batch.labels, static_cast<size_t>(batch.count)));
    lr.assign_scalar(config.optimizer.lr);
    position.assign(std::span<const int64_t>(std::vector<int64_t>{i, batch.first}));
    step.run();
    for (size_t k = 0; k < step.outputs(); ++k) seen.push_back(step.output(k).item<float>());
  }
  for (const Tensor& tensor : session.store().persistent())
    if (tensor.dtype() == DType::f32)
      for (float value : tensor.to_vector<float>()) seen.push_back(value);
  return seen;
}

void expect_same_for_any_workers(const std::string& model, double dropout, int64_t steps) {
  Config config;
  config.seed = 11;
  config.threads = 2;
  config.data.batch = 8;
  config.model.name = model;
  if (dropout > 0) config.model.dropout = dropout;
  if (model == "cnn_bn") config.model.widths = {8, 8, 16, 16};
  config.optimizer.lr = 0.02;
  config.optimizer.nesterov = true;
  config.optimizer.weight_decay = 1e-4;
  config.mode = Mode::kEager;
  const std::vector<float> expected = train_session(config, 0, steps);
  config.mode = Mode::kGraph;
  for (int workers = 0; workers <= 4; ++workers)
    EXPECT_TRUE(same_bits(train_session(config, workers, steps), expected)) << workers;
  config.seed = 12;
  EXPECT_FALSE(same_bits(train_session(config, 0, steps), expected)) << "the seed does not matter";
}

TEST(BitsOfSessions, AnyNumberOfLoaderWorkersGivesTheBitsOfEagerMode) {
  expect_same_for_any_workers("lenet5", 0, 50);
  expect_same_for_any_workers("cnn_bn", 0.3, 50);
  expect_same_for_any_workers("resnet20", 0, long_tests() ? 50 : 9);
}

Config precise(Precision precision) {
  Config config;
  config.seed = 11;
  config.threads = 2;
  config.data.batch = 8;
  config.model.name = "cnn_bn";
  config.model.widths = {8, 8, 16, 16};
  config.optimizer.lr = 0.05;
  config.train.accumulate = 2;
  config.precision = precision;
  return config;
}

TEST(BitsOfSessions, SixteenBitsGiveTheBitsOfEagerModeForAnyThreadsAndWorkers) {
  Config config = precise(Precision::bf16);
  config.mode = Mode::kEager;
  const std::vector<float> expected = train_session(config, 0, 10);
  config.mode = Mode::kGraph;
  for (const int threads : {1, 2, 3}) {
    config.threads = threads;
    EXPECT_TRUE(same_bits(train_session(config, threads, 10), expected)) << threads;
  }
  EXPECT_FALSE(same_bits(train_session(precise(Precision::float32), 0, 10), expected));
}

// Rounding to 8 or 11 bits changes losses by far less than training does.
TEST(BitsOfSessions, SixteenBitsTrainLikeFloat32) {
  const auto losses = [](const char* model, DType precision) {
    ZooStep step(model, testing_zoo::small_options(model), 16, precision);
    Compiled compiled(step.function(), {});
    std::vector<float> seen;
    for (int i = 0; i < 20; ++i)  // one batch in all steps
      seen.push_back(compiled.call(step.arguments(0))[0].item<float>());
    return seen;
  };
  for (const char* model : {"cnn_bn", "resnet20", "mobilenet_v3_small"}) {
    const std::vector<float> wide = losses(model, DType::f32);
    for (const DType precision : {DType::bf16, DType::f16}) {
      const std::vector<float> half = losses(model, precision);
      double apart = 0;
      for (size_t i = 0; i < half.size(); ++i)
        apart += std::abs(half[i] - wide[i]) / static_cast<double>(half.size());
      EXPECT_LT(apart, precision == DType::bf16 ? 0.05 : 0.02) << model;
      EXPECT_LT(half.back(), 0.7f * half.front()) << model;
    }
  }
}

class InstructionSets : public SameBits {};

TEST_F(InstructionSets, NetworksTrainToTheSameBits) {
  for (const char* model :
       {"lenet5", "cnn_bn", "resnet20", "alexnet", "vgg11_bn", "googlenet", "resnet50",
        "densenet_bc", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0",
        "shufflenet_v2_x1_0", "regnet_y_400mf", "convnext_atto"}) {
    const ModelOptions options = testing_zoo::small_options(model);
    record(model, train({model, options, 3, 2}, {}, long_tests() ? 50 : 2));
    record(std::string(model) + " bf16",
           train({model, options, 3, 2, DType::bf16}, {}, long_tests() ? 50 : 2));
  }
}

TEST_F(InstructionSets, OptimizersGiveTheSameBits) {
  for (const std::string& optimizer : optimizer_names()) {
    Config config;
    config.threads = 2;
    config.data.batch = 8;
    config.model.name = "cnn_bn";
    config.model.dropout = 0.3;
    config.model.widths = {8, 8, 16, 16};
    config.optimizer.name = optimizer;
    config.optimizer.lr = 0.01;
    config.optimizer.weight_decay = 0.01;
    config.optimizer.clip_norm = 1;
    config.ema.decay = 0.99;
    record(optimizer, train_session(config, 2, long_tests() ? 200 : 20));
  }
}

}  // namespace
}  // namespace tessera
