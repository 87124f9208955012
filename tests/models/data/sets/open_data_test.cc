#include <array>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tessera/models/data/dataset.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;
using tessera::testing::TempFolder;

DataSource source(const std::string& name, const std::string& root) {
  DataSource made;
  made.name = name;
  made.root = root;
  return made;
}

TEST(OpenDataTest, UnknownNameListsTheKnown) {
  expect_error<ConfigError>(
      [] { open_data(source("imagenet", "")); },
      {"data.name: 'imagenet' is not one of",
       "cifar10, cifar100, fashion_mnist, hdf5, image_folder, mnist, synthetic"});
  EXPECT_EQ(data_names().size(), 7u);
}

TEST(OpenDataTest, MissingFolderAndFile) {
  TempFolder folder;
  std::string missing = folder.path("none");
  expect_error<DataError>([&] { open_data(source("cifar10", missing)); },
                          {"cifar10: there is no folder", missing, "data_batch_1.bin",
                           "cifar-10-batches-bin/data_batch_1.bin", "data.root"});
  expect_error<DataError>([&] { open_data(source("fashion_mnist", folder.path())); },
                          {"fashion_mnist: a file is missing", "train-images-idx3-ubyte.gz"});
  expect_error<DataError>([&] { open_data(source("cifar100", folder.path())); },
                          {"cifar100: a file is missing", "cifar-100-binary/train.bin"});
  EXPECT_EQ(DataError("").exit_code(), 3);
}

TEST(OpenDataTest, BadSettings) {
  DataSource bad = source("mnist", "");
  bad.image_size = 64;
  expect_error<ConfigError>([&] { open_data(bad); }, {"data.image_size"});
  bad = source("synthetic", "");
  bad.train_count = -1;
  expect_error<ConfigError>([&] { open_data(bad); }, {"-1"});
  bad = source("synthetic", "");
  bad.image_size = 8;
  expect_error<ConfigError>([&] { open_data(bad); }, {"8 is not in [16, 512]"});
}

// Writes MNIST's files with a few images: `count` for training and 2 for testing.
void write_mnist(const TempFolder& folder, uint8_t count, const std::string& under = "") {
  for (auto [prefix, n] : {std::pair{"train", count}, std::pair{"t10k", uint8_t{2}}}) {
    Bytes images = {0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, 1, 0, 0, 0, 1};
    Bytes labels = {0, 0, 8, 1, 0, 0, 0, n};
    for (uint8_t i = 0; i < n; ++i) {
      images.push_back(static_cast<uint8_t>(50 + i));
      labels.push_back(i);
    }
    folder.write(under + prefix + "-images-idx3-ubyte", images);
    folder.write(under + prefix + "-labels-idx1-ubyte.gz", tessera::testing::gzip(labels));
  }
}

TEST(OpenDataTest, MnistFolderPlainAndCompressedMixed) {
  TempFolder folder;
  write_mnist(folder, 6, "MNIST/raw/");
  DataSplit data = open_data(source("mnist", folder.path()));
  EXPECT_EQ(data.train->count(), 6);
  EXPECT_EQ(data.test->count(), 2);
  EXPECT_EQ(data.train->name(), "mnist train");
  EXPECT_EQ(data.train->classes(), data_need(source("mnist", "")).classes);
  EXPECT_FLOAT_EQ(data.test->normalization().mean[0], 0.1307f);
}

TEST(OpenDataTest, FirstImagesOnly) {
  TempFolder folder;
  write_mnist(folder, 6);
  DataSource some = source("mnist", folder.path());
  some.train_count = 4;
  DataSplit data = open_data(some);
  EXPECT_EQ(data.train->count(), 4);
  EXPECT_EQ(data.test->count(), 2);
  uint8_t image = 0;
  data.train->read(3, &image);
  EXPECT_EQ(image, 53);
  EXPECT_EQ(data.train->label(3), 3);
  EXPECT_THROW(data.train->read(4, &image), Error);
  EXPECT_EQ(data.train->notes(), std::vector<std::string>{"the first 4 of 6 images are used"});
  size_t held = 0;  // the subset alone: an image is a byte
  for (const MemoryItem& buffer : data.train->host_buffers()) held += buffer.bytes;
  EXPECT_EQ(held, 4 * (1 + sizeof(int32_t)));
  some.train_count = 7;
  expect_error<ConfigError>([&] { open_data(some); },
                            {"data.train_count: is 7", "has only 6 images"});
}

// Sparse files of the real size, all zeros but for the first record; they take no disk space.
TEST(OpenDataTest, Cifar100FineAndCoarse) {
  TempFolder folder;
  for (auto [name, count] : {std::pair{"train.bin", 50000}, std::pair{"test.bin", 10000}}) {
    std::string path = folder.write(std::string("cifar-100-binary/") + name, {17, 83});
    std::filesystem::resize_file(path, static_cast<size_t>(count) * 3074);
  }
  DataSource fine = source("cifar100", folder.path());
  EXPECT_EQ(open_data(fine).train->label(0), 83);
  EXPECT_EQ(open_data(fine).train->classes(), data_need(fine).classes);
  std::string names;
  for (int i = 0; i < 20; ++i) names += "kind_" + std::to_string(i) + "\n";
  folder.write("cifar-100-binary/coarse_label_names.txt", {names.begin(), names.end()});
  fine.coarse = true;
  DataSplit coarse = open_data(fine);
  EXPECT_EQ(coarse.train->label(0), 17);
  EXPECT_EQ(coarse.train->classes(), 20);
  EXPECT_EQ(data_need(fine).classes, 20);
  EXPECT_EQ(coarse.test->class_names().at(17), "kind_17");
  // A subset takes only its own memory, as predicted.
  DataSource part = fine;
  part.train_count = 300;
  part.test_count = 200;
  EXPECT_EQ(data_need(part).bytes, int64_t{500} * (3072 + 4));
  EXPECT_EQ(data_need(open_data(part)).bytes, data_need(part).bytes);
  EXPECT_EQ(open_data(part).train->label(0), 17);
}

TEST(OpenDataTest, OwnBytesAreChecked) {
  DatasetInfo info{.name = "own",
                   .shape = {1, 1, 1},
                   .count = 2,
                   .classes = 2,
                   .class_names = {},
                   .normalization = {}};
  EXPECT_EQ(MemoryDataset(info, {1, 2}, {0, 1}).label(1), 1);
  expect_error<Error>([&] { MemoryDataset(info, {1}, {0, 1}); }, {"own:", "have 1 bytes"});
  expect_error<Error>([&] { MemoryDataset(info, {1, 2}, {0, 2}); }, {"label 2 of image 1"});
  info.class_names = {"one"};
  expect_error<Error>([&] { MemoryDataset(info, {1, 2}, {0, 1}); }, {"1 class names"});
}

// Returns the mean of all bytes / 255 per channel.
std::vector<double> means(const Dataset& data) {
  Bytes image(static_cast<size_t>(data.shape().bytes()));
  auto channels = static_cast<size_t>(data.channels());
  std::vector<double> sums(channels, 0.0);
  for (int64_t i = 0; i < data.count(); ++i) {
    data.read(i, image.data());
    for (size_t k = 0; k < image.size(); ++k) sums[k % channels] += image[k];
  }
  for (double& sum : sums) {
    sum /= 255.0 * static_cast<double>(data.count()) * data.height() * data.width();
  }
  return sums;
}

void expect_balanced(const Dataset& data) {
  std::vector<int64_t> seen(static_cast<size_t>(data.classes()));
  for (int64_t i = 0; i < data.count(); ++i) ++seen[static_cast<size_t>(data.label(i))];
  for (int64_t n : seen) EXPECT_EQ(n, data.count() / data.classes());
}

std::string real_data(const std::string& folder, const std::string& file) {
  const char* root = std::getenv("TESSERA_TEST_DATA");
  if (root == nullptr) return "";
  auto path = std::filesystem::path(root) / folder;
  return std::filesystem::exists(path / file) ? path.string() : "";
}

TEST(OpenDataTest, RealFashionMnist) {
  std::string root = real_data("fashion-mnist", "train-images-idx3-ubyte.gz");
  if (root.empty()) GTEST_SKIP() << "TESSERA_TEST_DATA names no folder with fashion-mnist";
  DataSplit data = open_data(source("fashion_mnist", root));
  EXPECT_EQ(data.train->describe(),
            "fashion_mnist train: 60000 images [28x28x1], 10 classes, 45.1 MiB in memory");
  EXPECT_EQ(data.test->count(), 10000);
  EXPECT_EQ(data.train->class_names()[static_cast<size_t>(data.train->label(0))], "ankle boot");
  EXPECT_NEAR(means(*data.train)[0], data.train->normalization().mean[0], 1e-4);
  expect_balanced(*data.train);
  expect_balanced(*data.test);
}

TEST(OpenDataTest, RealCifar10) {
  std::string root = real_data("cifar-10", "data_batch_1.bin");
  if (root.empty()) GTEST_SKIP() << "TESSERA_TEST_DATA names no folder with cifar-10/*.bin";
  DataSplit data = open_data(source("cifar10", root));
  EXPECT_EQ(data.train->count(), 50000);
  EXPECT_EQ(data.test->count(), 10000);
  EXPECT_EQ(data.train->class_names()[static_cast<size_t>(data.train->label(0))], "frog");
  auto mean = means(*data.train);
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(mean[c], data.train->normalization().mean[c], 1e-4);
  }
  expect_balanced(*data.train);
  expect_balanced(*data.test);
}

}  // namespace
}  // namespace tessera
