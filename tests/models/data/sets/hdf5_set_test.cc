// Data sets in HDF5 files of other programs; tests/golden/make_hdf5.py made the files.
#include "tessera/models/data/sets/hdf5_set.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include "tessera/models/data/formats/hdf5_writer.h"
#include "tessera/models/data/loader.h"
#include "tessera/tests/models/data/data_file_util.h"

namespace tessera {
namespace {

using tessera::testing::Bytes;
using tessera::testing::expect_error;
using tessera::testing::TempFolder;

constexpr int kHeight = 6, kWidth = 5;

std::string golden(const std::string& file) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/golden/hdf5/" + file;
}

uint8_t pixel(int64_t i, int y, int x, int c) {
  return static_cast<uint8_t>((7 * i + 13 * y + 29 * x + 101 * c) % 256);
}

Hdf5Source source_of(const std::string& images, const std::string& labels) {
  Hdf5Source source;
  source.images = images;
  source.labels = labels;
  return source;
}

DataSplit open(const std::string& file, const Hdf5Source& source, int readers = 2) {
  return open_hdf5_set(golden(file), source, readers);
}

// Expects the values of the formula, changed by `map`; image i is number[i] in the file.
void expect_pixels(
    const Dataset& data, const std::vector<int64_t>& number,
    const std::function<int(int)>& map = [](int v) { return v; }) {
  ASSERT_EQ(data.count(), static_cast<int64_t>(number.size()));
  ASSERT_EQ(data.height(), kHeight);
  ASSERT_EQ(data.width(), kWidth);
  Bytes image(static_cast<size_t>(data.shape().bytes()));
  for (int64_t i = 0; i < data.count(); ++i) {
    data.read(i, image.data());
    EXPECT_EQ(data.label(i), number[static_cast<size_t>(i)] % 3);
    size_t at = 0;
    for (int y = 0; y < kHeight; ++y)
      for (int x = 0; x < kWidth; ++x)
        for (int c = 0; c < data.channels(); ++c)
          ASSERT_EQ(image[at++], map(pixel(number[static_cast<size_t>(i)], y, x, c)))
              << fmt::format("image {}, y {}, x {}, c {}", i, y, x, c);
  }
}

std::vector<int64_t> first_numbers(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

// A quarter of each class of four is the test set: the last three images.
void expect_cut(
    const DataSplit& data, const std::function<int(int)>& map = [](int v) { return v; }) {
  expect_pixels(*data.train, first_numbers(9), map);
  expect_pixels(*data.test, {9, 10, 11}, map);
}

Hdf5Source quarter(const std::string& images, const std::string& labels) {
  Hdf5Source source = source_of(images, labels);
  source.test_fraction = 0.25;
  return source;
}

TEST(Hdf5SetTest, EveryStorageOfH5py) {
  for (const char* images : {"plain", "/chunked", "unfiltered", "/gzip_of_int16"})
    expect_cut(open("h5py.h5", quarter(images, "y")));
  for (const char* images :
       {"single", "fixed_array", "extensible_array", "btree2", "implicit", "compact"})
    expect_cut(open("newest.h5", quarter(images, "y")));
  Hdf5Source source = quarter("/deep/er/still/chw", "/y");
  source.layout = "chw";
  expect_cut(open("h5py.h5", source));
  const DataSplit gray = open("h5py.h5", quarter("gray", "y"));
  EXPECT_EQ(gray.train->channels(), 1);
  expect_cut(gray);
}

TEST(Hdf5SetTest, AFileOfANewerLibraryIsToldSo) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/hdf5/newest.h5",
                     std::ios::binary);
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  ASSERT_EQ(bytes.at(8), 3);  // version of the superblock
  bytes[8] = 9;
  const tessera::testing::TempFolder folder;
  expect_error<DataError>(
      [&] {
        open_hdf5_set(folder.write("future.h5", bytes), quarter("single", "y"), 1, "", "", {});
      },
      {"version", "a newer version than HDF5 library", "convert it with the h5repack"});
}

TEST(Hdf5SetTest, EveryTypeOfNumber) {
  const auto half = [](int v) { return v / 2; };
  for (const char* type :
       {"int8", "uint16", "big_u2", "int32", "big_i4", "uint32", "int64", "uint64"})
    expect_cut(open("types.h5", quarter(std::string("whole/") + type, "y/int64")), half);
  for (const char* type : {"float16", "big_f2", "float32", "big_f4", "float64", "big_f8"})
    expect_cut(open("types.h5", quarter(std::string("floats/") + type, "y/int64")));
  for (const char* type : {"uint8", "int8", "big_i2", "uint16", "big_u4", "int32", "int64",
                           "uint64", "float32", "column", "row"})
    expect_cut(open("types.h5", quarter("floats/float32", std::string("y/") + type)));
  const DataSplit two = open("types.h5", quarter("floats/float32", "y/bool"));
  EXPECT_EQ(two.train->classes(), 2);
  EXPECT_EQ(two.train->label(1), 1);
}

TEST(Hdf5SetTest, TheRangeSaysWhatIsBlackAndWhite) {
  Hdf5Source source = quarter("uint16_full", "y/int64");
  source.range = {0, 65535};
  expect_cut(open("types.h5", source));
  source.images = "signed_floats";
  source.range = {-1, 1};
  expect_cut(open("types.h5", source));
  source.images = "mask";
  source.range = {0, 1};
  expect_cut(open("types.h5", source), [](int v) { return v % 2 * 255; });
}

TEST(Hdf5SetTest, ValuesOutsideOfTheRangeAreErrors) {
  Hdf5Source source = quarter("uint16_full", "y/int64");
  expect_error<DataError>([&] { open("types.h5", source); },
                          {"types.h5: 'uint16_full': image 0 has the value", "outside [0, 255]",
                           "data.range: [low, high]", "uint16"});
  source.images = "signed_floats";
  expect_error<DataError>([&] { open("types.h5", source); }, {"value -1, outside [0, 1]"});
  // These values are found when the image is read.
  source.images = "wrong";
  Bytes image(90);
  DataSplit data = open("types.h5", source);
  data.train->read(3, image.data());
  expect_error<DataError>([&] { data.train->read(5, image.data()); },
                          {"'wrong': image 7 has the value 300"});
  source.images = "nan";
  expect_error<DataError>([&] { open("types.h5", source); }, {"image 3 has the value nan"});
}

TEST(Hdf5SetTest, SplitsOfTheFile) {
  const DataSplit data = open("h5py.h5", source_of("/sets/{split}/pictures", "/sets/{split}/kind"));
  expect_pixels(*data.train, first_numbers(12));
  expect_pixels(*data.test, first_numbers(4));
  EXPECT_EQ(data.train->classes(), 3);
  expect_pixels(*open("h5py.h5", source_of("{split}_x", "{split}_y")).test, first_numbers(4));
  expect_pixels(*open("h5py.h5", source_of("only/{split}/x", "only/{split}/y")).test,
                first_numbers(5));
  expect_error<DataError>(
      [] { open("h5py.h5", source_of("narrow/{split}/x", "narrow/{split}/y")); },
      {"'narrow/test/x'", "[12 x 6 x 4 x 3]", "[12 x 6 x 5 x 3]"});
}

TEST(Hdf5SetTest, FilesOfOtherPrograms) {
  const DataSplit tables = open("pytables.h5", source_of("/{split}/images", "/{split}/labels"));
  expect_pixels(*tables.train, first_numbers(12));
  EXPECT_EQ(tables.test->class_names(), (std::vector<std::string>{"ant", "bee", "wasp"}));
  Hdf5Source source = quarter("/x", "/y");
  source.layout = "cwh";
  expect_cut(open("matlab.mat", source));
  // In C order the file's images are [C x W x H], so reading them as chw transposes them.
  source.layout = "chw";
  const DataSplit mirrored = open("matlab.mat", source);
  EXPECT_EQ(mirrored.train->shape(), (ImageShape{kWidth, kHeight, 3}));
  Bytes image(90);
  mirrored.train->read(1, image.data());
  EXPECT_EQ(image[(2 * kHeight + 4) * 3 + 1], pixel(1, 4, 2, 1));
}

TEST(Hdf5SetTest, WeightsOfKerasAreListed) {
  const Hdf5File file(golden("keras.weights.h5"));
  const std::string root = "/model/layers/";
  EXPECT_EQ(file.list(), (std::vector<std::string>{root + "conv2d/vars/0", root + "conv2d/vars/1",
                                                   root + "dense/vars/0", root + "dense/vars/1"}));
  EXPECT_EQ(file.list(3).size(), 3u);
  const auto kernel = file.open(root + "conv2d/vars/0");
  EXPECT_EQ(kernel->info().shape, (std::vector<int64_t>{3, 3, 3, 4}));
  EXPECT_EQ(kernel->info().type.name(), "float32");
  EXPECT_EQ(file.numbers(root + "dense/vars/1").at(9), 9);
  EXPECT_EQ(file.texts(root + "@backend"), std::vector<std::string>{"tensorflow"});
}

TEST(Hdf5SetTest, NamesOfClasses) {
  const std::vector<std::string> names{"ant", "bee", "Käfer"};
  Hdf5Source source = quarter("plain", "y");
  for (const char* place : {"names/variable", "/names/fixed", "names/lines"}) {
    source.class_names = place;
    EXPECT_EQ(open("h5py.h5", source).test->class_names(), names) << place;
  }
  source.class_names = "names/spaces";
  EXPECT_EQ(open("h5py.h5", source).train->class_names(),
            (std::vector<std::string>{"ant", "bee?", "c"}));
  source.class_names = "names@ascii";
  EXPECT_EQ(open("h5py.h5", source).train->class_names()[2], "c");
  EXPECT_EQ(open("types.h5", quarter("floats/float32", "y/int64")).train->class_names(), names);
  source.class_names = "names@two";
  expect_error<DataError>([&] { open("h5py.h5", source); },
                          {"'y': label 2 of image 2 is not in [0, 2)"});
  source.class_names = "names/numbers";
  expect_error<DataError>([&] { open("h5py.h5", source); }, {"'names/numbers'", "not strings"});
  source.class_names = "names/gzip";
  expect_error<DataError>([&] { open("h5py.h5", source); }, {"'names/gzip': it is compressed"});
  source.class_names = "names@none";
  expect_error<DataError>([&] { open("h5py.h5", source); },
                          {"'names@none'", "the attribute does not exist"});
}

TEST(Hdf5SetTest, WhatLeadsElsewhereOrIsUnclearIsRefusedByName) {
  const auto refused = [](const std::string& images, const std::vector<std::string>& parts) {
    expect_error<DataError>([&] { open("refused.h5", quarter(images, "y")); }, parts);
  };
  expect_cut(open("refused.h5", quarter("inside", "y")));
  expect_cut(open("refused.h5", quarter("group/again", "y")));
  refused("external", {"refused.h5: 'external': 'external' is an external link", "into the file"});
  refused("by_way", {"'by_way': 'external' is an external link"});
  refused("group/deep/x", {"'deep' is an external link"});
  refused("circle", {"soft links, maybe a cycle"});
  refused("dangling", {"'dangling': the data set does not exist; the file has /complex"});
  refused("group/near", {"the data set does not exist"});
  refused("group", {"the data set does not exist"});
  refused("lzf", {"filter 32000 (lzf)", "h5repack"});
  refused("scaleoffset", {"filter 6"});
  refused("elsewhere", {"external storage"});
  refused("virtual", {"virtual data set"});
  refused("complex", {"compounds"});
  refused("table", {"compounds (a table)"});
  refused("flat", {"[12 x 90]", "reshape"});
  refused("many", {"5 dimensions"});
  refused("five_channels", {"1 or 3 channels", "data.layout: hwc has 5"});
  refused("scalar", {"no values"});
  refused("empty", {"no values"});
  refused("null", {"no values"});
  refused("never_written", {"'never_written'", "do not fit into a file"});
  refused("huge", {"'huge'", "do not fit into a file"});
  refused("huge_chunk", {"'huge_chunk': its chunks of 100000 x 64 x 64 x 3"});
}

TEST(Hdf5SetTest, LabelsThatCannotBe) {
  const auto refused = [](const std::string& labels, const std::vector<std::string>& parts) {
    expect_error<DataError>([&] { open("types.h5", quarter("floats/float32", labels)); }, parts);
  };
  refused("y/negative", {"'y/negative': label -1 of image 0", "from 0 on"});
  refused("y/half", {"label 0.5 of image 1"});
  refused("y/one_hot", {"[12 x 3]", "argmax"});
  refused("y/too_few", {"there are 11 labels, but 12 images"});
  refused("y/texts", {"'y/texts': its values are strings"});
}

TEST(Hdf5SetTest, SettingsThatCannotBe) {
  const auto refused = [](Hdf5Source source, const std::vector<std::string>& parts) {
    expect_error<ConfigError>([&] { open("h5py.h5", source); }, parts);
  };
  refused(source_of("plain", ""), {"data.labels: hdf5 needs"});
  refused(source_of("{split}_x", "y"), {"data.labels: 'y'", "both or neither must contain"});
  Hdf5Source source = quarter("plain", "y");
  for (const auto& range : std::vector<std::vector<double>>{{1}, {1, 1}, {2, 1}, {0, NAN}}) {
    source.range = range;
    refused(source, {"data.range: must be two numbers"});
  }
  source.range = {};
  source.test_fraction = 0.01;
  expect_error<DataError>([&] { open("h5py.h5", source); },
                          {"data.test_fraction: 0.01", "raise data.test_fraction"});
  source.layout = "chw";
  expect_error<DataError>([&] { open("h5py.h5", source); },
                          {"data.layout: chw has 6; set data.layout: hwc"});
  expect_error<DataError>([] { Hdf5File("/nowhere/x.h5"); },
                          {"/nowhere/x.h5: the file does not exist"});
  expect_error<DataError>([] { Hdf5File("/tmp"); }, {"not a regular file"});
  TempFolder folder;
  expect_error<DataError>([&] { Hdf5File(folder.write("text.h5", Bytes(3000, 'x'))); },
                          {"text.h5: ", "signature"});
}

TEST(Hdf5SetTest, ASmallCacheChangesNothing) {
  Hdf5Source source = quarter("chunked", "y");
  source.cache = 5 * 90;  // one block of five images
  const DataSplit small = open("h5py.h5", source, 3);
  ASSERT_EQ(small.train->notes().size(), 1u);
  EXPECT_NE(small.train->notes()[0].find("decodes the 5 images"), std::string::npos);
  EXPECT_TRUE(open("h5py.h5", quarter("chunked", "y")).train->notes().empty());
  expect_cut(small);
  --source.cache;
  expect_error<DataError>([&] { open("h5py.h5", source); }, {"5 images share chunks", "450B"});
}

TEST(Hdf5SetTest, ManyThreadsReadTheSame) {
  for (int64_t cache : {450, 900, 1 << 20}) {
    Hdf5Source source = quarter("chunked", "y");
    source.cache = cache;
    const DataSplit data = open("h5py.h5", source, 3);
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (unsigned t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        std::minstd_rand random(t + 1);
        Bytes image(90);
        for (int i = 0; i < 300; ++i) {
          const auto index = static_cast<int64_t>(random() % 9);
          data.train->read(index, image.data());
          for (size_t k = 0; k < image.size(); ++k)
            wrong += image[k] != pixel(index, static_cast<int>(k) / 15, static_cast<int>(k) / 3 % 5,
                                       static_cast<int>(k) % 3);
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Hdf5SetTest, WhatIsHeldIsToldBeforeAnythingIsDecoded) {
  const DataSource source{
      .name = "hdf5", .root = golden("h5py.h5"), .train_count = 5, .hdf5 = quarter("chunked", "y")};
  const DataSplit data = open_data(source);
  EXPECT_EQ(data.train->count(), 5);
  const DataNeed before = data_need(data);
  EXPECT_TRUE(before.complete);
  EXPECT_EQ(before, data_need(source));
  expect_pixels(*data.train, first_numbers(5));
  EXPECT_EQ(data_need(data), before);
  // Three blocks of five images, two decoders of a chunk, labels and numbers of 12 images.
  const int64_t chunk = 5 * 4 * 2 * 2;
  EXPECT_GE(before.bytes, 15 * 90 + 2 * 2 * chunk + 12 * 8 + (1 << 20));
  EXPECT_LE(before.bytes, 15 * 90 + 2 * 2 * (chunk + 300) + 12 * 8 + (1 << 20) + 200);
}

TEST(Hdf5SetTest, APartHoldsOnlyThePart) {
  const auto held = [](const Dataset& data) {
    for (const MemoryItem& buffer : data.host_buffers())
      if (buffer.name.ends_with(" images")) return buffer.bytes;
    return size_t{0};
  };
  DataSource source{.name = "hdf5", .root = golden("h5py.h5")};
  source.hdf5.images = "/sets/{split}/pictures";
  source.hdf5.labels = "/sets/{split}/kind";
  const DataSplit all = open_data(source);
  source.train_count = 1;
  const DataSplit one = open_data(source);
  EXPECT_LT(held(*one.train), held(*all.train));
  EXPECT_EQ(held(*one.test), held(*all.test));
  EXPECT_TRUE(std::ranges::none_of(one.train->notes(), [](const std::string& note) {
    return note.find("data.cache") != note.npos;
  }));
  std::vector<uint8_t> a(static_cast<size_t>(all.train->shape().bytes())), b(a.size());
  all.train->read(0, a.data());
  one.train->read(0, b.data());
  EXPECT_EQ(a, b);
}

// Writes values that gzip cannot compress, in chunks of four images.
std::string random_file(const TempFolder& folder) {
  const std::string path = folder.path("random.h5");
  Bytes images(40 * 90);
  std::minstd_rand random(3);
  for (uint8_t& value : images) value = static_cast<uint8_t>(random() >> 8);
  std::vector<int32_t> labels(40);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 4);
  Hdf5Writer writer(path);
  writer.begin({"x", "uint8", {40, 6, 5, 3}}, 4);
  writer.append(images.data(), 40);
  writer.array({"y", "int32", {40}}, labels.data());
  writer.close();
  return path;
}

// Returns the address and size of the chunk that begins at image `first`.
std::pair<haddr_t, hsize_t> chunk_place(const std::string& path, hsize_t first) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT),
              data = H5Dopen2(file, "x", H5P_DEFAULT);
  const hsize_t at[] = {first, 0, 0, 0};
  haddr_t address = 0;
  hsize_t bytes = 0;
  unsigned mask = 0;
  EXPECT_GE(H5Dget_chunk_info_by_coord(data, at, &mask, &address, &bytes), 0);
  H5Dclose(data);
  H5Fclose(file);
  return {address, bytes};
}

TEST(Hdf5SetTest, ADamagedChunkIsNamed) {
  TempFolder folder;
  const std::string path = random_file(folder);
  const auto [address, bytes] = chunk_place(path, 8);
  std::ifstream in(path, std::ios::binary);
  const Bytes whole((std::istreambuf_iterator<char>(in)), {});
  const Hdf5Source source = source_of("x", "y");
  Bytes image(90);
  int errors = 0;
  for (size_t i = 0; i < bytes; i += 5) {
    Bytes bad = whole;
    bad[address + i] ^= 0x10;
    const DataSplit data = open_hdf5_set(folder.write("bad.h5", bad), source, 2);
    data.train->read(7, image.data());
    data.train->read(12, image.data());
    try {
      data.train->read(9, image.data());
    } catch (const DataError& error) {
      ++errors;
      EXPECT_EQ(error.exit_code(), 3);
      const std::string text = error.what();
      EXPECT_NE(text.find("bad.h5: 'x', the chunk at (8, 0, 0, 0), images 8 to 11: its gzip data"),
                std::string::npos)
          << text;
    }
    // The chunk is not cached, so reading it again throws again.
    EXPECT_THROW(data.train->read(9, image.data()), DataError);
  }
  EXPECT_EQ(errors, static_cast<int>((bytes + 4) / 5));
  // A loader's thread reports it too.
  Bytes bad = whole;
  bad[address + 40] ^= 1;
  LoaderOptions options;
  options.batch = 7;
  Loader loader(open_hdf5_set(folder.write("bad.h5", bad), source, 2).train, options);
  loader.next();
  EXPECT_THROW(loader.next(), DataError);
}

TEST(Hdf5SetTest, AChunkThatWasNeverWrittenIsNamed) {
  const DataSplit data = open("refused.h5", quarter("part", "y"));
  Bytes image(90);
  data.train->read(3, image.data());
  expect_error<DataError>(
      [&] { data.train->read(4, image.data()); },
      {"'part', the chunk at (4, 0, 0, 0), images 4 to 7: it is not in the file"});
}

}  // namespace
}  // namespace tessera
