#include "tessera/models/data/sets/packed.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tessera/models/data/formats/hdf5_writer.h"
#include "tessera/models/data/moments.h"
#include "tessera/models/data/sets/hdf5_set.h"
#include "tessera/models/data/sets/synthetic.h"
#include "tessera/tests/golden/golden_file.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;
using tessera::testing::TempFolder;

DataSplit pictures() {
  return {synthetic(1, SyntheticSplit::kTrain, 37, 20),
          synthetic(1, SyntheticSplit::kTest, 12, 20)};
}

class EveryPack : public ::testing::TestWithParam<Compress> {};
INSTANTIATE_TEST_SUITE_P(PackedTest, EveryPack, ::testing::Values(Compress::kNone, Compress::kGzip),
                         [](const auto& info) {
                           return info.param == Compress::kGzip ? "gzip" : "plain";
                         });

TEST_P(EveryPack, WhatWasWrittenIsRead) {
  TempFolder folder;
  std::string path = folder.path("pack.h5");
  DataSplit data = pictures();
  int64_t last = 0, all = 0;
  write_packed(
      data, path, 2, [&](int64_t done, int64_t total) { last = done, all = total; }, GetParam());
  EXPECT_EQ(last, 49);
  EXPECT_EQ(all, 49);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  DataSplit packed = open_data({.name = "hdf5", .root = path});
  for (auto [made, read] :
       {std::pair{data.train, packed.train}, std::pair{data.test, packed.test}}) {
    ASSERT_EQ(read->count(), made->count());
    EXPECT_EQ(read->shape(), made->shape());
    EXPECT_EQ(read->class_names(), made->class_names());
    EXPECT_EQ(read->normalization().mean, made->normalization().mean);
    EXPECT_EQ(read->normalization().std, made->normalization().std);
    Bytes a(static_cast<size_t>(made->shape().bytes())), b(a.size());
    for (int64_t i = 0; i < made->count(); ++i) {
      made->read(i, a.data());
      read->read(i, b.data());
      ASSERT_EQ(a, b);
      EXPECT_EQ(made->label(i), read->label(i));
    }
  }
}

// A data set without a normalization.
class Untold : public Dataset {
 public:
  explicit Untold(std::shared_ptr<const Dataset> data) : Dataset(without(*data)), data_(data) {}

 private:
  static DatasetInfo without(const Dataset& data) {
    DatasetInfo info = data.info();
    info.normalization = {};
    return info;
  }
  void do_read(int64_t index, uint8_t* image) const override { data_->read(index, image); }
  int64_t do_label(int64_t index) const override { return data_->label(index); }
  std::shared_ptr<const Dataset> data_;
};

TEST_P(EveryPack, HasTheNormalizationThatIsMeasuredWhereNobodyTold) {
  TempFolder folder;
  const DataSplit data = pictures();
  const auto train = std::make_shared<Untold>(data.train);
  write_packed({train, data.test}, folder.path("pack.h5"), 3, {}, GetParam());
  const DataSplit packed = open_data({.name = "hdf5", .root = folder.path("pack.h5")});
  const Normalization measured = measured_normalization(*train, 2);
  EXPECT_TRUE(packed.train->has_normalization());
  EXPECT_EQ(packed.train->normalization().mean, measured.mean);
  EXPECT_EQ(packed.train->normalization().std, measured.std);
  EXPECT_NE(measured.mean, data.train->normalization().mean);
}

TEST_P(EveryPack, EqualDataGiveEqualBytes) {
  TempFolder folder;
  std::vector<Bytes> files;
  for (const char* name : {"a.h5", "b.h5"}) {
    write_packed(pictures(), folder.path(name), 2, {}, GetParam());
    std::ifstream in(folder.path(name), std::ios::binary);
    files.emplace_back((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  }
  EXPECT_EQ(files[0], files[1]);
}

TEST_P(EveryPack, NothingIsLeftOfOneThatBreaksOff) {
  TempFolder folder;
  const auto break_off = [](int64_t done, int64_t) {
    if (done == 49) throw Error("enough");
  };
  expect_error<Error>(
      [&] { write_packed(pictures(), folder.path("pack.h5"), 2, break_off, GetParam()); },
      {"enough"});
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(PackedTest, OnlyLabelsOfAPlainPackAreInMemory) {
  TempFolder folder;
  write_packed(pictures(), folder.path("pack.h5"));
  const DataSplit packed = open_packed(folder.path("pack.h5"));
  ASSERT_EQ(packed.train->host_buffers().size(), 1u);
  EXPECT_EQ(packed.train->host_buffers()[0].bytes, 37 * sizeof(int32_t));
}

TEST(PackedTest, APackInChunksIsSmallAndReadInPieces) {
  TempFolder folder;
  DatasetInfo info;
  info.name = "own";
  info.shape = {16, 16, 1};
  info.count = 3000;
  info.classes = 1;
  auto data =
      std::make_shared<MemoryDataset>(info, Bytes(3000 * 256, 9), std::vector<int32_t>(3000));
  const std::string path = folder.path("pack.h5");
  write_packed({data, data}, path, 2, {}, Compress::kGzip);
  EXPECT_LT(std::filesystem::file_size(path), 40000u);
  golden::File file(path);
  EXPECT_EQ(file.read("train/images").values, std::vector<double>(3000 * 256, 9.0));
  EXPECT_EQ(file.text("/", "format"), "tessera data");
  // 256 images are 64 KiB: one block of them fits into the cache, and the values are equal.
  const DataSplit small = open_packed(path, 65536);
  EXPECT_EQ(small.train->notes().size(), 1u);
  Bytes image(256);
  for (int64_t i : {2999, 0, 1500}) small.test->read(i, image.data());
  EXPECT_EQ(image, Bytes(256, 9));
  expect_error<DataError>([&] { open_packed(path, 65535); }, {path, "256 images share chunks"});
}

TEST(PackedTest, AFileOfAnotherKindIsReadWhereItsArraysAreNamed) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/tests/golden/hdf5/newest.h5";
  expect_error<DataError>([&] { open_packed(path); }, {"newest.h5", "'/train/images' is missing",
                                                       "set data.images and data.labels"});
}

// Writes a pack as another program would: images of a shape, labels of a type.
template <class Label>
void write_foreign(const std::string& path, const std::vector<int64_t>& images,
                   const std::string& type) {
  int64_t bytes = 1;
  for (int64_t extent : images) bytes *= extent;
  Bytes pixels(static_cast<size_t>(bytes));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i);
  std::vector<Label> labels(static_cast<size_t>(images[0]));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<Label>(i % 3);
  Hdf5Writer writer(path);
  for (const std::string split : {"train", "test"}) {
    writer.array({split + "/images", "uint8", images}, pixels.data());
    writer.array({split + "/labels", type, {images[0]}}, labels.data());
  }
  writer.close();
}

TEST(PackedTest, LabelsMayBeIntegersOfAnyType) {
  TempFolder folder;
  const std::string path = folder.path("labels.h5");
  const auto expect_labels = [&](const char* type) {
    const DataSplit data = open_packed(path);
    ASSERT_EQ(data.train->count(), 5) << type;
    EXPECT_EQ(data.train->shape(), (ImageShape{4, 6, 3})) << type;
    EXPECT_EQ(data.train->classes(), 3) << type;
    for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(data.test->label(i), i % 3) << type;
    Bytes image(72);
    data.train->read(1, image.data());
    EXPECT_EQ(image[5], 77) << type;
    EXPECT_FALSE(data.train->has_normalization()) << type;
  };
  write_foreign<uint8_t>(path, {5, 4, 6, 3}, "uint8");
  expect_labels("uint8");
  write_foreign<int32_t>(path, {5, 4, 6, 3}, "int32");
  expect_labels("int32");
  write_foreign<int64_t>(path, {5, 4, 6, 3}, "int64");
  expect_labels("int64");
}

TEST(PackedTest, ChannelsThatComeFirstAreAskedAbout) {
  TempFolder folder;
  const std::string path = folder.path("nchw.h5");
  for (const int64_t channels : {1, 3}) {
    write_foreign<int32_t>(path, {5, channels, 28, 28}, "int32");
    expect_error<DataError>([&] { open_packed(path); },
                            {path, "x 28 x 28]", "images must have 1 or 3 channels",
                             "data.images=/{split}/images", "data.layout=chw"});
    const Hdf5Source source{
        .images = "/{split}/images", .labels = "/{split}/labels", .layout = "chw"};
    EXPECT_EQ(open_hdf5_set(path, source, 1).train->shape(),
              (ImageShape{28, 28, static_cast<int>(channels)}));
    write_foreign<int64_t>(path, {5, channels, 28, 28}, "int64");  // through the library
    expect_error<DataError>([&] { open_packed(path); }, {"1 or 3 channels", "data.layout: chw"});
  }
  write_foreign<int32_t>(path, {5, 7, 28, 28}, "int32");
  expect_error<DataError>([&] { open_packed(path); }, {"images must have 1 or 3 channels"});
}

TEST(PackedTest, TheHdf5LibraryReadsIt) {
  TempFolder folder;
  DataSplit data = pictures();
  write_packed(data, folder.path("pack.h5"));
  golden::File file(folder.path("pack.h5"));
  EXPECT_EQ(file.members("/"),
            (std::vector<std::string>{"class_names", "mean", "std", "test", "train"}));
  golden::Array images = file.read("train/images"), labels = file.read("test/labels");
  EXPECT_EQ(images.shape, (std::vector<int64_t>{37, 20, 20, 3}));
  Bytes image(1200);
  data.train->read(36, image.data());
  EXPECT_TRUE(std::equal(image.begin(), image.end(), images.values.end() - 1200));
  EXPECT_EQ(labels.values[11], 1);
  EXPECT_EQ(file.text("/", "format"), "tessera data");
}

TEST(PackedTest, DamageIsAnErrorAndNothingElse) {
  TempFolder folder;
  std::string path = folder.path("pack.h5");
  write_packed(pictures(), path);
  std::ifstream in(path, std::ios::binary);
  Bytes whole((std::istreambuf_iterator<char>(in)), {});
  auto open = [&](const Bytes& bytes) { open_packed(folder.write("bad.h5", bytes)); };
  for (size_t size : {size_t{0}, size_t{7}, size_t{100}, size_t{3000}, whole.size() - 1}) {
    Bytes part(whole.begin(), whole.begin() + static_cast<int64_t>(size));
    expect_error<DataError>([&] { open(part); }, {"bad.h5"});
  }
  // Any changed byte near the beginning gives an error or a data set that can be read to its end.
  int errors = 0;
  for (size_t at = 0; at < 4000; at += 11) {
    Bytes changed = whole;
    changed[at] = static_cast<uint8_t>(changed[at] + 1 + at % 250);
    try {
      DataSplit data = open_packed(folder.write("bad.h5", changed));
      Bytes image(static_cast<size_t>(data.train->shape().bytes()));
      data.train->read(data.train->count() - 1, image.data());
    } catch (const DataError&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 30);
  Bytes label = whole;  // test/labels
  for (size_t i = 0; i + 48 <= label.size(); i += 4) {
    int32_t labels[12];
    std::memcpy(labels, label.data() + i, 48);
    bool found = true;
    for (int k = 0; k < 12; ++k) found = found && labels[k] == k % 10;
    if (found) label[i + 4] = 77;
  }
  expect_error<DataError>([&] { open(label); }, {"label 77 of image", "[0, 10)"});
}

TEST(PackedTest, AMeanOrDeviationThatCannotBeIsAnError) {
  TempFolder folder;
  const std::string path = folder.path("pack.h5");
  const float nan = std::nanf(""), inf = HUGE_VALF;
  auto open = [&](float mean, float std) {
    DatasetInfo info{.name = "own",
                     .shape = {1, 1, 1},
                     .count = 1,
                     .classes = 2,
                     .class_names = {"a", "b"},
                     .normalization = {{mean}, {std}}};
    auto data = std::make_shared<MemoryDataset>(info, Bytes{7}, std::vector<int32_t>{1});
    write_packed({data, data}, path);
    return open_packed(path);
  };
  EXPECT_EQ(open(-0.5f, 1e-3f).train->normalization().mean[0], -0.5f);
  for (float bad : {0.f, -1.f, nan, inf, 1e-40f})
    expect_error<DataError>([&] { open(0.5f, bad); }, {path, "'std' of channel 0 is", "above 0"});
  for (float bad : {nan, inf, -inf})
    expect_error<DataError>([&] { open(bad, 1.f); }, {path, "'mean' of channel 0 is", "finite"});
}

TEST(PackedTest, AClassStaysOneWhateverItsName) {
  TempFolder folder;
  DatasetInfo info{.name = "own",
                   .shape = {1, 1, 1},
                   .count = 1,
                   .classes = 3,
                   .class_names = {"", "a\nb", "c\x1b"},
                   .normalization = {}};
  auto data = std::make_shared<MemoryDataset>(info, Bytes{7}, std::vector<int32_t>{1});
  write_packed({data, data}, folder.path("pack.h5"));
  EXPECT_EQ(open_packed(folder.path("pack.h5")).train->class_names(),
            (std::vector<std::string>{"", "a?b", "c?"}));
}

TEST(PackedTest, APlaceThatCannotBeWritten) {
  expect_error<ConfigError>([] { write_packed(pictures(), "/nowhere/pack.h5"); },
                            {"/nowhere/pack.h5", "folder '/nowhere' does not exist"});
  expect_error<DataError>([] { open_packed("/nowhere/pack.h5"); }, {"/nowhere/pack.h5"});
}

TEST(PackedTest, OnlyAnOrdinaryFileIsReplaced) {
  TempFolder folder;
  const std::string file = folder.write("file.h5", {1, 2}), link = folder.path("link.h5"),
                    pipe = folder.path("pipe.h5"), busy = folder.path("busy.h5");
  std::filesystem::create_symlink(file, link);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(mkfifo((busy + ".partial").c_str(), 0600), 0);
  for (const auto& [path, text] : {std::pair{link, "is a link"},
                                   {pipe, "is a pipe"},
                                   {busy, "busy.h5.partial' is a pipe"},
                                   {folder.path(), "is not the name of a file"},
                                   {folder.path("."), "is a folder"},
                                   {file + "/pack.h5", "is not a folder"}})
    expect_error<ConfigError>([&, path = path] { write_packed(pictures(), path); }, {text});
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_EQ(std::filesystem::file_size(file), 2u);
  expect_error<ConfigError>([&] { check_pack_target(file, false); }, {"exists", "--overwrite"});
  check_pack_target(file, true);
  check_pack_target(folder.path("new.h5"), false);
  write_packed(pictures(), file);
  EXPECT_EQ(open_packed(file).train->count(), 37);
}

TEST(PackedTest, APipeThatComesLaterIsNotReplaced) {
  TempFolder folder;
  const std::string path = folder.path("pack.h5");
  auto make = [&](int64_t, int64_t) { mkfifo(path.c_str(), 0600); };
  expect_error<ConfigError>([&] { write_packed(pictures(), path, 1, make); }, {"is a pipe"});
  EXPECT_TRUE(std::filesystem::is_fifo(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

}  // namespace
}  // namespace tessera
