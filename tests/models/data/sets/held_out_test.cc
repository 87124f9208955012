#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tessera/models/data/sets/subset.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using testing::expect_error;

// A hundred images; image i contains i. The classes are mixed and have 50, 30 and 20 images.
std::shared_ptr<const Dataset> hundred() {
  std::vector<uint8_t> images;
  std::vector<int32_t> labels;
  for (int i = 0; i < 100; ++i) {
    images.push_back(static_cast<uint8_t>(i));
    const int place = i * 7 % 100;
    labels.push_back(place < 50 ? 0 : place < 80 ? 1 : 2);
  }
  return std::make_shared<MemoryDataset>(DatasetInfo{.name = "hundred train",
                                                     .shape = {1, 1, 1},
                                                     .count = 100,
                                                     .classes = 3,
                                                     .class_names = {},
                                                     .normalization = {}},
                                         images, labels);
}

std::vector<int> contents(const Dataset& data) {
  std::vector<int> all;
  for (int64_t i = 0; i < data.count(); ++i) {
    uint8_t image = 0;
    data.read(i, &image);
    all.push_back(image);
  }
  return all;
}

std::vector<int> of_class(const Dataset& data) {
  std::vector<int> counts(3);
  for (int64_t i = 0; i < data.count(); ++i) ++counts[static_cast<size_t>(data.label(i))];
  return counts;
}

TEST(HeldOut, IsApartFromTrainingAndOfEachClassInProportion) {
  const HeldOut parts = hold_out(hundred(), {.percent = 10}, 1);
  EXPECT_EQ(of_class(*parts.validation), (std::vector<int>{5, 3, 2}));
  EXPECT_EQ(of_class(*parts.train), (std::vector<int>{45, 27, 18}));
  std::vector<int> all = contents(*parts.train), held = contents(*parts.validation);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
  EXPECT_TRUE(std::is_sorted(held.begin(), held.end()));
  all.insert(all.end(), held.begin(), held.end());
  EXPECT_EQ(std::set<int>(all.begin(), all.end()).size(), 100u);
  EXPECT_EQ(parts.validation->name(), "hundred validation");
  EXPECT_EQ(of_class(*hold_out(hundred(), {.count = 7}, 1).validation),
            (std::vector<int>{4, 2, 1}));
}

TEST(HeldOut, TheSeedAloneDraws) {
  const auto held = [](uint64_t seed) {
    return contents(*hold_out(hundred(), {.count = 20}, seed).validation);
  };
  EXPECT_EQ(held(1), held(1));
  EXPECT_NE(held(1), held(2));
}

TEST(HeldOut, MemoryIsWhatIsSaidAndIsCountedOnce) {
  const auto all = hundred();
  const HeldOut parts = hold_out(all, {.percent = 10}, 1);
  EXPECT_EQ(
      total_bytes(parts.train->host_buffers()) + total_bytes(parts.validation->host_buffers()),
      total_bytes(all->host_buffers()) + held_out_bytes(100));
}

TEST(HeldOut, NoneOfThemOrAllOfThemIsRefused) {
  expect_error<ConfigError>([] { hold_out(hundred(), {.percent = 0.4}, 1); },
                            {"data.validation: 0.4% of 100 training images rounds to 0"});
  expect_error<ConfigError>([] { hold_out(hundred(), {.count = 100}, 1); },
                            {"data.validation: 100 of 100 training images leaves no image"});
}

TEST(HeldOut, DataAreOpenedWithThemAndWhatWasToldBeforeIsRight) {
  DataSource source{.train_count = 50, .test_count = 20};
  source.validation.percent = 20;
  const DataSplit data = open_data(source);
  EXPECT_EQ(data.train->count(), 40);
  EXPECT_EQ(data.validation->count(), 10);
  EXPECT_EQ(data.test->count(), 20);
  const DataNeed before = data_need(source), after = data_need(data);
  EXPECT_EQ(before.train_count, 40);
  EXPECT_EQ(before.validation_count, 10);
  EXPECT_EQ(before.bytes, after.bytes);
  EXPECT_EQ(after.validation_count, 10);
  source.validation = {};
  EXPECT_EQ(open_data(source).validation, nullptr);
  source.validation.folder = "val";
  expect_error<ConfigError>([&] { open_data(source); }, {"'val' is read as a folder"});
}

}  // namespace
}  // namespace tessera
