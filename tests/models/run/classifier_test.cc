// Classifier: a run folder gives the logits of its evaluation, from any number of threads.
#include "tessera/models/run/classifier.h"

#include <cmath>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/layers/ops/image_normalize.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/golden/golden_file.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

constexpr const char* kConfig = R"(
model: {name: resnet20}
data: {name: synthetic, image_size: 16, train_count: 64, test_count: 16, batch: 32, workers: 0}
train: {steps: 2}
threads: 2
)";

class ClassifierTest : public testing::Test {
 protected:
  // Trains for two steps with `overrides` of kConfig.
  void train_with(std::vector<std::string> overrides) {
    const std::string path = folder_.path("c.yaml");
    std::ofstream(path) << kConfig;
    overrides.push_back("run.dir=" + run());
    train(load_config(path, overrides), [](const std::string&) {});
  }
  std::string run() const { return folder_.path("run"); }

  static std::vector<uint8_t> pixels(int64_t images) {
    std::vector<uint8_t> values(static_cast<size_t>(images * 16 * 16 * 3));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint8_t>(i * 31 % 251);
    return values;
  }

  // Returns the logits that evaluation computes.
  std::vector<float> evaluated(int64_t images) const {
    const auto trained = trained_network({run()});
    const auto norm = *normalization_in(trained->inference);
    const TrainingScope training(false);
    const NoGradScope no_grad;
    const auto logits = [&](const Tensor& x) {
      return (*trained->network)(image_normalize(
          x, {{norm.mean.begin(), norm.mean.end()}, {norm.std.begin(), norm.std.end()}}));
    };
    const Tensor x = from_vector<uint8_t>({images, 16, 16, 3}, pixels(images));
    if (!trained->config.eval.flip) return logits(x).to_vector<float>();
    return ((logits(x) + logits(flip_left_right(x))) * 0.5).to_vector<float>();
  }

  static void expect_near(const std::vector<float>& found, const std::vector<float>& wanted) {
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 2e-5) << i;
  }

 private:
  testing_checkpoint::TemporaryFolder folder_;
};

TEST_F(ClassifierTest, AnswersAsEvaluationDoes) {
  train_with({});
  const Classifier net = load(run());
  EXPECT_EQ(net.classes(), 10);
  EXPECT_EQ(net.image(), (ImageShape{16, 16, 3}));
  EXPECT_EQ(net.class_names().size(), 10u);
  const std::vector<float> logits = net(pixels(3));
  expect_near(logits, evaluated(3));
  const auto first = std::span(logits).first(10);
  const std::vector<float> shares = Classifier::probabilities(first);
  float sum = 0;
  for (const float share : shares) sum += share;
  EXPECT_NEAR(sum, 1, 1e-6);
  const auto order = Classifier::ranking(first);
  EXPECT_EQ(order[0], Classifier::best(first));
  EXPECT_GE(shares[order[0]], shares[order[1]]);
}

TEST(ClassifierRanking, ANanIsTheLargest) {
  const std::vector<float> logits{3, NAN, 7, NAN, 5};
  EXPECT_EQ(Classifier::best(logits), 1u);
  EXPECT_EQ(Classifier::ranking(logits), (std::vector<size_t>{1, 3, 2, 4, 0}));
}

TEST_F(ClassifierTest, MirrorsImagesWhereEvaluationDoes) {
  train_with({"eval.flip=true"});
  expect_near(load(run())(pixels(2)), evaluated(2));
}

// The logits of an image do not depend on the other images of its batch.
TEST_F(ClassifierTest, AnyNumberOfImagesInAnyBatch) {
  train_with({});
  const std::vector<float> wanted = load(run(), {.batch = 4})(pixels(4));
  for (const int64_t images : {1, 3, 4}) {
    const std::vector<float> found = load(run(), {.batch = 4})(pixels(images));
    EXPECT_EQ(found, std::vector<float>(wanted.begin(), wanted.begin() + images * 10));
  }
  expect_near(load(run(), {.batch = 3})(pixels(4)), wanted);
  EXPECT_TRUE(load(run())({}).empty());
}

TEST_F(ClassifierTest, ThreadsCallAtOnce) {
  train_with({});
  const Classifier net = load(run());
  const std::vector<uint8_t> images = pixels(2);
  const std::vector<float> wanted = net(images);
  constexpr int kThreads = 4, kCalls = 20;
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kCalls; ++i) wrong[static_cast<size_t>(t)] += net(images) != wanted;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

// The weights exist once, without gradients and momentum, and the arena is small.
TEST_F(ClassifierTest, HoldsWeightsOnceAndASmallArena) {
  train_with({});
  const Classifier net = load(run());
  EXPECT_GE(net.bytes().weights, 268'000 * sizeof(float));
  EXPECT_LT(net.bytes().slots, 10'000u);
  EXPECT_LT(net.bytes().arena, size_t{1} << 20);
}

// A batch may hold pictures and files that are none.
TEST_F(ClassifierTest, ClassifiesFilesInTheirOrder) {
  train_with({});
  const Classifier net = load(run(), {.batch = 2});
  golden::File pictures(TESSERA_SOURCE_DIR "/tests/golden/pictures.h5");
  std::vector<std::string> files;
  for (const char* name : {"png_rgba", "", "jpeg_gray", "png_gray", ""}) {
    files.push_back(fmt::format("{}/{}.png", run(), files.size()));
    if (*name == 0) continue;  // there is no such file
    const auto values = pictures.read(fmt::format("decode/{}/file", name)).values;
    const std::vector<uint8_t> bytes(values.begin(), values.end());
    std::ofstream(files.back(), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  }
  size_t calls = 0;
  net.classify(files, [&](size_t i, std::span<const float> logits, const std::string& fault) {
    EXPECT_EQ(i, calls++);
    if (i == 1 || i == 4) {
      EXPECT_TRUE(logits.empty());
      EXPECT_NE(fault.find(files[i]), fault.npos) << fault;
    } else {
      EXPECT_EQ(fault, "");
      EXPECT_EQ(std::vector(logits.begin(), logits.end()), net(net.read(files[i])));
    }
  });
  EXPECT_EQ(calls, files.size());
}

TEST_F(ClassifierTest, RefusesWhatIsNoImage) {
  train_with({});
  const Classifier net = load(run());
  EXPECT_THROW(net(std::vector<uint8_t>(10)), ShapeError);
  EXPECT_THROW(net.read(run() + "/model.txt"), DataError);
  EXPECT_THROW(net.read(run() + "/nothing.png"), DataError);
  EXPECT_THROW(load(run(), {.batch = 0}), Error);
  EXPECT_THROW(load(run() + "/nowhere"), ConfigError);
}

}  // namespace
}  // namespace tessera
