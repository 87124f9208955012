#include <gtest/gtest.h>

#include "tessera/models/data/sets/published.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;
using tessera::testing::gzip;
using tessera::testing::TempFolder;

Bytes header(std::initializer_list<uint32_t> dims) {
  Bytes bytes = {0, 0, 8, static_cast<uint8_t>(dims.size())};
  for (uint32_t d : dims) {
    for (int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<uint8_t>(d >> shift));
  }
  return bytes;
}

Bytes images(uint32_t count = 5) {  // [count x 3 x 2], bytes 0, 1, 2 ...
  Bytes bytes = header({count, 3, 2});
  for (uint32_t i = 0; i < count * 6; ++i) bytes.push_back(static_cast<uint8_t>(i));
  return bytes;
}

Bytes labels(uint32_t count = 5) {
  Bytes bytes = header({count});
  for (uint32_t i = 0; i < count; ++i) bytes.push_back(static_cast<uint8_t>(9 - i));
  return bytes;
}

class IdxTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Dataset> read(const Bytes& image_bytes, const Bytes& label_bytes,
                                      const std::string& ending = "") {
    std::string image_file = folder_.write("images" + ending, image_bytes);
    return read_idx(image_file, folder_.write("labels" + ending, label_bytes),
                    {.name = "tiny",
                     .shape = {},
                     .count = 0,
                     .classes = 10,
                     .class_names = {},
                     .normalization = {}});
  }
  void expect_bad(const Bytes& image_bytes, const Bytes& label_bytes,
                  const std::vector<std::string>& parts, const std::string& ending = "") {
    expect_error<DataError>([&] { read(image_bytes, label_bytes, ending); }, parts);
  }

  TempFolder folder_;
};

void expect_tiny(const Dataset& data) {
  EXPECT_EQ(data.count(), 5);
  EXPECT_EQ(data.shape(), (ImageShape{3, 2, 1}));
  uint8_t image[6];
  for (int64_t i = 0; i < 5; ++i) {
    data.read(i, image);
    for (int64_t k = 0; k < 6; ++k) EXPECT_EQ(image[k], 6 * i + k);
    EXPECT_EQ(data.label(i), 9 - i);
  }
  expect_error<Error>([&] { data.read(5, image); },
                      {"tiny: image 5 does not exist; the data set has 5"});
  expect_error<Error>([&] { data.label(-1); }, {"tiny: image -1"});
}

TEST_F(IdxTest, ReadsPlainAndCompressed) {
  auto plain = read(images(), labels());
  expect_tiny(*plain);
  EXPECT_EQ(plain->describe(), "tiny: 5 images [3x2x1], 10 classes, 0.0 MiB in memory");
  EXPECT_EQ(plain->normalization().std, std::vector<float>{1.f});
  expect_tiny(*read(gzip(images()), gzip(labels()), ".gz"));
}

TEST_F(IdxTest, ReadsSeveralGzipMembers) {
  Bytes all = images(), a = gzip({all.begin(), all.begin() + 20});
  Bytes b = gzip({all.begin() + 20, all.end()});
  a.insert(a.end(), b.begin(), b.end());
  expect_tiny(*read(a, gzip(labels()), ".gz"));
}

TEST_F(IdxTest, WrongMagic) {
  expect_bad(labels(), labels(), {"images: byte 0", "00 00 08 03", "labels, not images"});
  expect_bad(images(), images(), {"labels: byte 0", "00 00 08 01", "images, not labels"});
  Bytes text = {'h', 'e', 'l', 'l', 'o'};
  expect_bad(text, labels(), {"images: byte 0", "68 65 6c 6c", "not an IDX file"});
  expect_bad(gzip(images()), labels(), {"images: byte 0", "its name ends in .gz"});
}

TEST_F(IdxTest, Truncated) {
  Bytes cut = images();
  cut.pop_back();
  expect_bad(cut, labels(), {"images: byte 45", "need 46 bytes", "truncated"});
  cut.resize(10);
  expect_bad(cut, labels(), {"images: byte 10", "within the header", "2 more bytes"});
  expect_bad({}, labels(), {"images: byte 0", "truncated"});
  cut = images();
  cut.resize(40);
  expect_bad(gzip(cut), gzip(labels()),
             {"images.gz: byte 40 (decompressed)", "within the images", "6 more bytes"}, ".gz");
}

TEST_F(IdxTest, Oversized) {
  Bytes more = images();
  more.push_back(1);
  expect_bad(more, labels(), {"images: byte 46", "need 46 bytes", "has 47", "oversized"});
  expect_bad(gzip(more), gzip(labels()), {"images.gz: byte 46 (decompressed)", "oversized"}, ".gz");
}

TEST_F(IdxTest, DamagedGzip) {
  Bytes whole = gzip(images()), bad = whole;
  bad.resize(bad.size() - 9);
  expect_bad(bad, gzip(labels()), {"images.gz: byte", "compressed file", "end too early"}, ".gz");
  bad = whole;
  bad[bad.size() - 6] ^= 1;  // the checksum
  expect_bad(bad, gzip(labels()), {"images.gz: byte", "incorrect data check"}, ".gz");
  bad = whole;
  bad.push_back('x');
  expect_bad(bad, gzip(labels()), {"images.gz: byte", "of the compressed file"}, ".gz");
  expect_bad(images(), gzip(labels()), {"images.gz: byte", "incorrect header check"}, ".gz");
}

TEST_F(IdxTest, BytesBehindTheCompressedData) {
  const Bytes whole = gzip(images());
  for (Bytes more : {Bytes{0}, Bytes{'x'}, Bytes{'x', 'y', 'z'}}) {
    Bytes file = whole;
    file.insert(file.end(), more.begin(), more.end());
    expect_bad(file, gzip(labels()),
               {"byte " + std::to_string(whole.size()) + " of the compressed file",
                "the bytes after its end are not gzip data"},
               ".gz");
  }
}

TEST_F(IdxTest, HeaderThatAsksForTooMuch) {
  // 4 G x 16384 x 16384 bytes are never allocated, because the file cannot hold them.
  Bytes huge = header({0xFFFFFFFF, 16384, 16384});
  expect_bad(huge, labels(), {"images: byte 16", "truncated or its header is damaged"});
  expect_bad(gzip(huge), gzip(labels()), {"images.gz: byte 16", "too few for that"}, ".gz");
  expect_bad(header({5, 1u << 31, 2}), labels(), {"images: byte 8", "dimension 1 is 2147483648"});
  expect_bad(header({0, 3, 2}), labels(), {"images: byte 4", "dimension 0 is 0"});
}

TEST_F(IdxTest, BadLabels) {
  Bytes bad = labels();
  bad[8 + 3] = 10;
  expect_bad(images(), bad, {"labels: byte 11", "label 10 of image 3 is not in [0, 10)"});
  expect_bad(images(), labels(4), {"labels: byte 4", "4 labels", "has 5 images"});
}

TEST_F(IdxTest, MissingFile) {
  expect_error<DataError>([&] { read_idx(folder_.path("none"), folder_.path("none"), {}); },
                          {"none: cannot be opened: No such file"});
}

}  // namespace
}  // namespace tessera
