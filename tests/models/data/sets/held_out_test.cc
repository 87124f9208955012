#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/models/data/sets/subset.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/golden/golden_file.h"
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
      total_bytes(all->host_buffers()) + subset_bytes(100));
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

// The test set of a folder without one: every class in proportion, the same whatever the seed and
// the order of opening, apart from training and validation.
TEST(HeldOut, TestPicturesAreCutOffFromAFolderOfClasses) {
  testing::TempFolder folder;
  golden::File pictures(TESSERA_SOURCE_DIR "/tests/golden/pictures.h5");
  const auto values = pictures.read("decode/png_gray/file").values;
  for (int i = 0; i < 30; ++i)
    folder.write(fmt::format("{}/{}.png", i < 20 ? "ants" : "bees/more", i),
                 {values.begin(), values.end()});
  const auto files = [](const Dataset& data) {
    std::set<std::string> all;
    for (int64_t i = 0; i < data.count(); ++i) all.insert(data.file(i));
    return all;
  };
  DataSource source{.name = "image_folder",
                    .root = folder.path(),
                    .image_size = 8,
                    .test_fraction = 0.2,
                    .validation = {.count = 3}};
  const DataSplit data = open_data(source);
  EXPECT_TRUE(data.cut);
  EXPECT_EQ(images_of_classes(*data.train), (std::vector<int64_t>{14, 7}));
  EXPECT_EQ(images_of_classes(*data.validation), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(images_of_classes(*data.test), (std::vector<int64_t>{4, 2}));
  std::set<std::string> all = files(*data.train);
  all.merge(files(*data.validation));
  all.merge(files(*data.test));
  EXPECT_EQ(all.size(), 30u);
  EXPECT_TRUE(all.contains("bees/more/29.png"));
  EXPECT_EQ(data_need(source).test_count, 6);
  EXPECT_EQ(data_need(source).train_count, 21);
  EXPECT_EQ(class_count(source), 2);
  source.seed = 2;
  const DataSplit other = open_data(source);
  EXPECT_EQ(files(*other.test), files(*data.test));
  EXPECT_NE(files(*other.validation), files(*data.validation));
  // Other pictures move none that was a test into training, while each class gives as many.
  folder.write("ants/new.png", {values.begin(), values.end()});
  folder.write("ants/a.png", {values.begin(), values.end()});
  std::set<std::string> again = files(*open_data(source).test);
  const std::set<std::string> before = files(*data.test);
  std::set<std::string> trained = files(*data.train);
  int moved = 0;
  for (const std::string& file : again) moved += trained.contains(file);
  EXPECT_EQ(again.size(), before.size());
  EXPECT_EQ(moved, 0);
  for (const char* file : {"ants/new.png", "ants/a.png"})
    std::filesystem::remove(folder.path(file));
  // A validation folder among the classes would be trained on.
  DataSource within = source;
  within.validation = {.folder = "bees"};
  expect_error<DataError>([&] { open_data(within); }, {"inside the folder of the classes"});
  source.test_only = true;
  const DataSplit alone = open_data(source);
  EXPECT_EQ(alone.train, nullptr);
  EXPECT_EQ(files(*alone.test), files(*data.test));
  EXPECT_EQ(alone.test->label(5), data.test->label(5));
  EXPECT_GT(total_bytes(alone.test->host_buffers()), 0u);
  EXPECT_EQ(total_bytes(other.test->host_buffers()), 6 * sizeof(int64_t));
  source.test_fraction = 0;  // an evaluation of all pictures
  EXPECT_EQ(open_data(source).test->count(), 30);
  source.test_only = false;
  expect_error<ConfigError>([&] { open_data(source); }, {"data.test_fraction", "no image to test"});
}

}  // namespace
}  // namespace tessera
