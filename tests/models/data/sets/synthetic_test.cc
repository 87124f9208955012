#include "tessera/models/data/sets/synthetic.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;

Bytes image(const Dataset& data, int64_t index) {
  Bytes bytes(static_cast<size_t>(data.shape().bytes()));
  data.read(index, bytes.data());
  return bytes;
}

uint64_t fnv(const Dataset& data) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (int64_t i = 0; i < data.count(); ++i) {
    for (uint8_t byte : image(data, i)) hash = (hash ^ byte) * 0x100000001b3u;
  }
  return hash;
}

// The bytes are equal with every compiler, optimization and computer, as published accuracies
// depend on them.
TEST(SyntheticTest, BytesAreFixed) {
  EXPECT_EQ(fnv(*synthetic(1, SyntheticSplit::kTrain, 100)), 14330102476360761471u);
  EXPECT_EQ(fnv(*synthetic(1, SyntheticSplit::kTest, 20, 48)), 1784368426844250587u);
}

TEST(SyntheticTest, SeedsSplitsAndImagesDiffer) {
  auto train = synthetic(1, SyntheticSplit::kTrain, 200);
  EXPECT_NE(image(*train, 0), image(*synthetic(1, SyntheticSplit::kTest, 200), 0));
  EXPECT_NE(image(*train, 0), image(*synthetic(2, SyntheticSplit::kTrain, 200), 0));
  EXPECT_NE(image(*train, 0), image(*train, 10));
  EXPECT_EQ(image(*train, 7), image(*synthetic(1, SyntheticSplit::kTrain, 8), 7));
}

TEST(SyntheticTest, KeptInMemoryWithTheSameBytes) {
  DataSource source;
  source.train_count = 50;
  source.test_count = 30;
  DataSplit data = open_data(source);
  EXPECT_EQ(data.train->describe(),
            "synthetic train: 50 images [32x32x3], 10 classes, 0.1 MiB in memory");
  auto made = synthetic(1, SyntheticSplit::kTest, 30);
  EXPECT_EQ(made->describe(), "synthetic test: 30 images [32x32x3], 10 classes, read on demand");
  for (int64_t i = 0; i < 30; ++i) {
    EXPECT_EQ(image(*data.test, i), image(*made, i));
    EXPECT_EQ(data.test->label(i), i % 10);
  }
}

TEST(SyntheticTest, NormalizationIsTheMeasuredOne) {
  auto data = synthetic(3, SyntheticSplit::kTrain, 3000);
  double sum = 0, squares = 0, n = 0;
  for (int64_t i = 0; i < data->count(); ++i) {
    for (uint8_t byte : image(*data, i)) {
      double x = byte / 255.0;
      sum += x, squares += x * x, ++n;
    }
  }
  double mean = sum / n, deviation = std::sqrt(squares / n - mean * mean);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(mean, data->normalization().mean[c], 0.01);
    EXPECT_NEAR(deviation, data->normalization().std[c], 0.01);
  }
}

// No channel's mean reveals the class: the class means are close together compared to their spread.
TEST(SyntheticTest, MeanColourSaysLittle) {
  auto data = synthetic(1, SyntheticSplit::kTrain, 3000);
  std::vector<double> means(10);
  for (int64_t i = 0; i < data->count(); ++i) {
    for (uint8_t byte : image(*data, i)) means[static_cast<size_t>(i % 10)] += byte;
  }
  for (double& mean : means) mean /= 300.0 * 3072;
  auto [low, high] = std::minmax_element(means.begin(), means.end());
  EXPECT_LT(*high - *low, 20);
}

TEST(SyntheticTest, BadSettings) {
  expect_error<ConfigError>([] { synthetic(1, SyntheticSplit::kTest, 5, 15); }, {"15 is not in"});
  expect_error<ConfigError>([] { synthetic(1, SyntheticSplit::kTest, 0); }, {"at least 1 image"});
}

}  // namespace
}  // namespace tessera
