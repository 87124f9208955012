#include <gtest/gtest.h>

#include "tessera/models/data/sets/published.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;
using tessera::testing::TempFolder;

// Byte c + 3 i (of pixel i) in record r is a simple hash of all three.
uint8_t pixel(int64_t record, int64_t i, int64_t c) {
  return static_cast<uint8_t>(record * 31 + i * 7 + c * 101);
}

Bytes records(const std::vector<Bytes>& labels) {
  Bytes bytes;
  for (size_t r = 0; r < labels.size(); ++r) {
    bytes.insert(bytes.end(), labels[r].begin(), labels[r].end());
    for (int64_t c = 0; c < 3; ++c) {
      for (int64_t i = 0; i < 1024; ++i) bytes.push_back(pixel(static_cast<int64_t>(r), i, c));
    }
  }
  return bytes;
}

DatasetInfo tiny(int classes = 10) {
  return {.name = "tiny",
          .shape = {},
          .count = 0,
          .classes = classes,
          .class_names = {},
          .normalization = {}};
}

TEST(CifarTest, PlanesBecomeChannels) {
  TempFolder folder;
  std::string a = folder.write("a.bin", records({{7}, {0}}));
  std::string b = folder.write("b.bin", records({{9}, {1}}));
  auto data = read_cifar({a, b}, {.records_per_file = 2}, tiny());
  EXPECT_EQ(data->count(), 4);
  EXPECT_EQ(data->shape(), (ImageShape{32, 32, 3}));
  int64_t labels[] = {7, 0, 9, 1};
  Bytes image(3072);
  for (int64_t n = 0; n < 4; ++n) {
    EXPECT_EQ(data->label(n), labels[n]);
    data->read(n, image.data());
    for (int64_t i = 0; i < 1024; ++i) {
      for (int64_t c = 0; c < 3; ++c) {
        ASSERT_EQ(image[static_cast<size_t>(3 * i + c)], pixel(n % 2, i, c));
      }
    }
  }
}

TEST(CifarTest, FineLabels) {
  TempFolder folder;
  std::string file = folder.write("train.bin", records({{3, 99}, {19, 4}}));
  CifarFormat format{.label_bytes = 2, .label_at = 1, .records_per_file = 2};
  auto data = read_cifar({file}, format, tiny(100));
  EXPECT_EQ(data->label(0), 99);
  EXPECT_EQ(data->label(1), 4);
}

TEST(CifarTest, BadFiles) {
  TempFolder folder;
  auto bad = [&](const Bytes& bytes, const std::vector<std::string>& parts) {
    std::string file = folder.write("bad.bin", bytes);
    expect_error<DataError>([&] { read_cifar({file}, {.records_per_file = 2}, tiny()); }, parts);
  };
  bad(records({{1}, {10}}), {"bad.bin: byte 3073:", "label 10 of record 1 is not in [0, 10)"});
  Bytes bytes = records({{1}, {2}});
  bytes.pop_back();
  bad(bytes, {"bad.bin: byte 6145:", "has 6145 (1 records and 3072 bytes)", "truncated"});
  bad(records({{1}}), {"bad.bin: byte 3073:", "truncated"});
  bytes.resize(6147);
  bad(bytes, {"bad.bin: byte 6146:", "oversized"});
  bad({}, {"bad.bin: byte 0:", "truncated"});
}

}  // namespace
}  // namespace tessera
