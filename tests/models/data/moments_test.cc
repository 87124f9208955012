#include "tessera/models/data/moments.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tessera/models/data/sets/subset.h"
#include "tessera/models/data/sets/synthetic.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Images of one value; only the first `sound` can be read.
class Values : public Dataset {
 public:
  Values(std::vector<uint8_t> values, size_t sound)
      : Dataset({.name = "values",
                 .shape = {1, 1, 1},
                 .count = static_cast<int64_t>(values.size()),
                 .classes = 1,
                 .class_names = {},
                 .normalization = {}}),
        values_(std::move(values)),
        sound_(sound) {}

 private:
  void do_read(int64_t index, uint8_t* image) const override {
    if (static_cast<size_t>(index) >= sound_) throw DataError("image " + std::to_string(index));
    *image = values_[static_cast<size_t>(index)];
  }
  int64_t do_label(int64_t) const override { return 0; }
  std::vector<uint8_t> values_;
  size_t sound_;
};

TEST(Moments, AreThoseOfThePixels) {
  const Values data({0, 51, 102, 255}, 4);  // 0, 0.2, 0.4, 1: mean 0.4, squares 1.2 / 4
  EXPECT_FALSE(data.has_normalization());
  const Normalization measured = measured_normalization(data, 1);
  EXPECT_EQ(measured.mean, std::vector<float>{0.4f});
  EXPECT_EQ(measured.std, std::vector<float>{0.3742f});  // sqrt(0.3 - 0.16)
  EXPECT_EQ(measured_normalization(Values({7, 7}, 2), 1).std, std::vector<float>{1.f});
}

TEST(Moments, AreTheSameForEveryNumberOfThreads) {
  const auto data = synthetic(1, SyntheticSplit::kTrain, 301, 16);
  const Normalization one = measured_normalization(*data, 1);
  ASSERT_EQ(one.mean.size(), 3u);
  for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(one.mean[c], data->normalization().mean[c], 0.02);
  for (int threads : {2, 3, 7}) {
    EXPECT_EQ(measured_normalization(*data, threads).mean, one.mean);
    EXPECT_EQ(measured_normalization(*data, threads).std, one.std);
  }
}

TEST(Moments, OfAVeryLargeSetAreThoseOfAPartSpreadEvenly) {
  std::vector<uint8_t> values(2 * kMaxMeasured + 1);
  EXPECT_EQ(measuring_stride(kMaxMeasured), 1);
  EXPECT_EQ(measuring_stride(std::ssize(values)), 3);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? 51 : 255;
  EXPECT_EQ(measured_normalization(Values(values, values.size()), 2).mean,
            std::vector<float>{0.2f});
}

TEST(Moments, TheFirstImageThatCannotBeReadIsNamed) {
  for (int threads : {1, 4}) {
    try {
      measured_normalization(Values(std::vector<uint8_t>(100), 60), threads);
      FAIL();
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "image 60");
    }
  }
}

TEST(Moments, APartOfASetKnowsWhatTheSetKnows) {
  const auto known = synthetic(1, SyntheticSplit::kTrain, 30, 16);
  EXPECT_TRUE(subset(known, 10, SubsetOrder::kFirst)->has_normalization());
  const auto unknown = std::make_shared<Values>(std::vector<uint8_t>(30), 30);
  EXPECT_FALSE(subset(unknown, 10, SubsetOrder::kFirst)->has_normalization());
}

TEST(Moments, FloatsAreWrittenShort) {
  EXPECT_EQ(shortest(0.4914f), 0.4914);
  EXPECT_EQ(normalization_text({{0.4914f}, {1.f}}), "mean [0.4914], std [1]");
}

}  // namespace
}  // namespace tessera
