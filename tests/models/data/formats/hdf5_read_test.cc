// Our own HDF5: what hdf5_layout writes is read by us and by h5py, what h5py writes in the same
// format is read by us, and what could lead elsewhere is refused by name.
#include "tessera/models/data/formats/hdf5_read.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/models/data/formats/hdf5_library.h"
#include "tessera/models/data/formats/hdf5_writer.h"
#include "tessera/models/data/formats/sealed_file.h"

namespace tessera {
namespace {

std::vector<std::byte> written(const std::vector<ArraySpec>& arrays,
                               const std::vector<Hdf5Attribute>& attributes = {}) {
  const Hdf5Layout layout(arrays, attributes);
  std::vector<std::byte> image(layout.bytes());
  layout.write(image);
  for (size_t i = 0; i < arrays.size(); ++i)
    std::memset(image.data() + layout.offset(i), static_cast<int>(i + 1), layout.array_bytes(i));
  return image;
}

TEST(Hdf5, WhatIsWrittenIsRead) {
  std::vector<ArraySpec> arrays{{"a", "float32", {2, 3}}, {"g/b", "float64", {}},
                                {"g/c", "uint8", {7}},    {"h/d", "int32", {1, 1, 1, 5}},
                                {"e", "int64", {0, 4}},   {"text", "text", {11}}};
  const auto image = written(arrays, {{"format", "a word"}, {"number", "", -7}});
  const Hdf5Contents contents = read_hdf5(MemorySource(image));
  std::sort(arrays.begin(), arrays.end(), [](auto& a, auto& b) { return a.name < b.name; });
  ASSERT_EQ(contents.arrays.size(), arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    EXPECT_EQ(static_cast<const ArraySpec&>(contents.arrays[i]), arrays[i]);
    if (contents.arrays[i].bytes > 0) {
      EXPECT_EQ(contents.arrays[i].offset % 64, 0u);
    }
  }
  ASSERT_EQ(contents.attributes.size(), 2u);
  EXPECT_EQ(contents.attributes[0].text, "a word");
  EXPECT_EQ(contents.attributes[1].number, -7);
  EXPECT_EQ(contents.end, image.size());
}

// Both writers and both readers, one against the other.
TEST(Hdf5, OurOwnAndTheLibraryUnderstandEachOther) {
  const std::vector<ArraySpec> arrays{{"a", "float32", {2, 3}}, {"g/b", "float64", {5}},
                                      {"g/c", "uint8", {7}},    {"h/d", "int32", {1, 1, 5}},
                                      {"e", "int64", {4}},      {"text", "text", {11}}};
  const std::string folder = testing::TempDir(), name = std::to_string(getpid());
  const auto ours = written(arrays, {{"format", "a word"}, {"number", "", -7}});
  const std::string paths[] = {folder + "/ours_" + name + ".h5",
                               folder + "/library_" + name + ".h5"};
  std::ofstream(paths[0], std::ios::binary)
      .write(reinterpret_cast<const char*>(ours.data()), static_cast<std::streamsize>(ours.size()));
  Hdf5Writer writer(paths[1]);
  writer.attribute({"format", "a word", 0});
  writer.attribute({"number", "", -7});
  const Hdf5Layout layout(arrays, {});
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::vector<char> values(layout.array_bytes(i), static_cast<char>(i + 1));
    writer.array(arrays[i], values.data());
  }
  writer.close();
  for (const std::string& path : paths) {
    const FileSource source(path);
    const Hdf5Contents contents = read_hdf5(source);
    const Hdf5File file(path);
    ASSERT_EQ(contents.arrays.size(), arrays.size());
    EXPECT_EQ(file.list().size(), arrays.size());
    for (size_t i = 0; i < arrays.size(); ++i) {
      const auto found = std::find_if(contents.arrays.begin(), contents.arrays.end(),
                                      [&](const auto& array) { return array == arrays[i]; });
      ASSERT_NE(found, contents.arrays.end()) << path << " " << arrays[i].name;
      std::vector<std::byte> bytes(found->bytes), same(found->bytes, static_cast<std::byte>(i + 1));
      source.read(found->offset, bytes.data(), bytes.size());
      EXPECT_EQ(bytes, same) << path << " " << arrays[i].name;
      if (arrays[i].dtype == "text") continue;
      const auto data = file.open(arrays[i].name);
      EXPECT_EQ(data->info().type.name(), arrays[i].dtype);
      EXPECT_EQ(data->info().shape, arrays[i].shape);
      data->read_rows(0, arrays[i].shape[0], bytes);
      EXPECT_EQ(bytes, same) << path << " " << arrays[i].name;
    }
    EXPECT_EQ(file.texts("/@format"), std::vector<std::string>{"a word"});
    EXPECT_EQ(file.numbers("@number"), std::vector<double>{-7});
    EXPECT_EQ(contents.attributes.size(), 2u);
    std::filesystem::remove(path);
  }
}

TEST(Hdf5, ManyArraysAndNone) {
  EXPECT_TRUE(read_hdf5(MemorySource(written({}))).arrays.empty());
  std::vector<ArraySpec> arrays;
  for (int i = 0; i < 3000; ++i)
    arrays.push_back({"optimizer/momentum." + std::to_string(i), "float32", {1}});
  const auto image = written(arrays);
  EXPECT_EQ(read_hdf5(MemorySource(image)).arrays.size(), 3000u);
}

TEST(Hdf5, NamesAndTypesThatCannotBe) {
  auto refused = [](const ArraySpec& array) {
    try {
      Hdf5Layout({array}, {});
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  for (const char* name : {"", "/", "/a", "a/", "a/b/c", ".", "..", "a/..", "./a"})
    EXPECT_TRUE(refused({name, "float32", {1}})) << name;
  EXPECT_TRUE(refused({std::string("a\0b", 3), "float32", {1}}));
  EXPECT_TRUE(refused({"a", "float16", {1}}));
  EXPECT_TRUE(refused({"a", "float32", {-1}}));
  EXPECT_TRUE(refused({"a", "float32", {int64_t{1} << 40, int64_t{1} << 40}}));
  EXPECT_TRUE(refused({"a", "text", {}}));
  EXPECT_FALSE(refused({"a/b", "float32", {1}}));
  EXPECT_THROW(Hdf5Layout({{"a", "float32", {}}, {"a", "int32", {}}}, {}), Error);
  EXPECT_THROW(Hdf5Layout({{"a", "float32", {}}, {"a/b", "int32", {}}}, {}), Error);
}

TEST(Hdf5, NoTruncationIsReadAsAWholeFile) {
  const auto image = written({{"a", "float32", {2, 3}}, {"g/b", "float64", {40}}});
  for (size_t size = 0; size < image.size(); ++size)
    EXPECT_THROW(read_hdf5(MemorySource(std::span(image).first(size))), Hdf5Error) << size;
}

// A group that holds itself, in the place of an array of its own.
TEST(Hdf5, AGroupWithinItselfIsRefused) {
  auto image = written({{"a", "float32", {1}}});
  uint64_t root = 0;
  std::memcpy(&root, image.data() + 64, 8);
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  const size_t node = text.find("SNOD");
  ASSERT_NE(node, std::string_view::npos);
  std::memcpy(image.data() + node + 16, &root, 8);
  EXPECT_THROW(read_hdf5(MemorySource(image)), Hdf5Error);
}

// Every pair of links leads to the same group: 2^depth ways through a file of a few KiB.
TEST(Hdf5, WorkIsBoundedByTheFile) {
  std::vector<ArraySpec> arrays;
  for (int i = 0; i < 60; ++i) arrays.push_back({fmt::format("a{}", i), "float32", {}});
  auto image = written(arrays);
  const std::string_view text(reinterpret_cast<const char*>(image.data()), image.size());
  const size_t tree = text.find("TREE");
  const uint64_t self = tree;
  image[tree + 5] = std::byte{1};  // a level that is not there
  std::memcpy(image.data() + tree + 32, &self, 8);
  EXPECT_THROW(read_hdf5(MemorySource(image)), Hdf5Error);
}

class H5py : public testing::Test {
 protected:
  void SetUp() override {
    for (std::string one : {"python3", "/usr/bin/python3"})
      if (python_.empty() && std::system((one + " -c 'import h5py' 2> /dev/null").c_str()) == 0)
        python_ = one;
    if (python_.empty()) GTEST_SKIP() << "no python3 with h5py here (Debian: python3-h5py)";
    dir_ = std::filesystem::path(testing::TempDir()) / ("hdf5_" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // The bytes of a file that these lines of Python put into `f`.
  std::vector<std::byte> make(const std::string& lines, const std::string& version = "earliest") {
    const std::string path = (dir_ / "x.h5").string(), script = (dir_ / "x.py").string();
    std::ofstream(script) << "import h5py, numpy as np\nf = h5py.File('" + path +
                                 "', 'w', libver='" + version + "')\n" + lines + "\nf.close()\n";
    EXPECT_EQ(std::system((python_ + " " + script).c_str()), 0) << lines;
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    const auto bytes = std::as_bytes(std::span(all));
    return {bytes.begin(), bytes.end()};
  }
  std::string error_of(const std::string& lines, const std::string& version = "earliest") {
    const auto bytes = make(lines, version);
    try {
      read_hdf5(MemorySource(bytes));
    } catch (const Hdf5Error& error) {
      return error.what();
    }
    return "no error";
  }

  std::string python_;
  std::filesystem::path dir_;
};

TEST_F(H5py, FilesOfTheOldFormatAreRead) {
  const auto bytes = make(
      "f.attrs['number'] = np.int32(3)\n"
      "for i in range(200): f[f'many/{i}'] = np.full((2, 3), i, 'f4')\n"
      "f['scalar'] = np.float64(0.5)\n"
      "f.create_dataset('small', data=np.arange(3, dtype='i8'))\n"
      "f['small'].attrs['unit'] = 'pixel'\n");
  const Hdf5Contents contents = read_hdf5(MemorySource(bytes));
  ASSERT_EQ(contents.arrays.size(), 202u);
  double half = 0;
  for (const Hdf5Array& array : contents.arrays)
    if (array.name == "scalar") std::memcpy(&half, bytes.data() + array.offset, 8);
  EXPECT_EQ(half, 0.5);
  const Hdf5Array& some = contents.arrays[7];
  float value = 0;
  std::memcpy(&value, bytes.data() + some.offset, 4);
  EXPECT_EQ("many/" + std::to_string(static_cast<int>(value)), some.name);
  ASSERT_EQ(contents.attributes.size(), 1u);
  EXPECT_EQ(contents.attributes[0].number, 3);
}

TEST_F(H5py, WhatLeadsElsewhereIsRefusedByName) {
  EXPECT_NE(error_of("f['a'] = h5py.SoftLink('/etc')").find("soft link"), std::string::npos);
  EXPECT_NE(error_of("f['a'] = h5py.ExternalLink('/etc/passwd', '/')").find("newer format"),
            std::string::npos);
  EXPECT_NE(error_of("f.create_dataset('a', (4,), 'u1', external=[('/etc/passwd', 0, 4)])")
                .find("external storage"),
            std::string::npos);
  const std::string far = error_of(
      "l = h5py.VirtualLayout(shape=(4,), dtype='u1')\n"
      "l[:] = h5py.VirtualSource('/etc/passwd', 'x', shape=(4,))\n"
      "f.create_virtual_dataset('a', l)",
      "latest");
  EXPECT_NE(far, "no error");
  EXPECT_NE(error_of("f['a'] = 1.0", "latest").find("libver=\"earliest\""), std::string::npos);
  EXPECT_NE(error_of("f['a'] = np.zeros(3, 'f2')").find("of a type"), std::string::npos);
  EXPECT_NE(error_of("f['a'] = np.zeros(3, '>f4')").find("of a type"), std::string::npos);
  EXPECT_NE(error_of("f['g/h/a'] = 1.0").find("group within a group"), std::string::npos);
  EXPECT_NE(error_of("f['a'] = np.zeros(3); f['g/b'] = f['a']; f['g/self'] = f['g']")
                .find("group within a group"),
            std::string::npos);
}

TEST_F(H5py, GroupsInGroupsAreReadWhereTheyAreAskedFor) {
  const auto image = make(
      "f['a/b/c/d'] = np.float32([1, 2]); f['a/x'] = np.zeros(2, 'u2'); f['a/t'] = 'text'\n"
      "f['e'] = np.float64(3)");
  const Hdf5Contents contents = read_hdf5(MemorySource(image), Hdf5Groups::nested);
  ASSERT_EQ(contents.arrays.size(), 2u);
  EXPECT_EQ(contents.arrays[0].name, "a/b/c/d");
  EXPECT_EQ(contents.arrays[0].shape, (std::vector<int64_t>{2}));
  EXPECT_EQ(contents.arrays[1].name, "e");
  const auto cycle = make("g = f.create_group('g'); g['a'] = g; g['b'] = g");
  try {
    read_hdf5(MemorySource(cycle), Hdf5Groups::nested);
    FAIL();
  } catch (const Hdf5Error& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.find("within too many others") != text.npos ||
                text.find("too many") != text.npos)
        << text;
  }
}

TEST_F(H5py, WhatIsStoredInAnotherWayIsNamedWithTheRemedy) {
  const std::string contiguous =
      "; write it contiguous and without compression, as h5py does without chunks= and "
      "compression=";
  EXPECT_EQ(error_of("f.create_dataset('t/a', (400,), 'u1', chunks=(4,))"),
            "'t/a' is stored in chunks" + contiguous);
  EXPECT_EQ(
      error_of("f.create_dataset('t/a', (400,), 'u1', compression='gzip')"),
      "'t/a' is stored in chunks that a filter has changed, such as compression" + contiguous);
  EXPECT_EQ(error_of("f['names'] = 'a\\nb'"),
            "'names' is a text or list of variable length; write a text with a fixed length, in "
            "h5py as np.bytes_(...)");
  EXPECT_EQ(read_hdf5(MemorySource(make("f['names'] = np.bytes_('a\\nb')"))).arrays.at(0).dtype,
            "text");
  EXPECT_NE(error_of("f['t/a'] = np.array([b'a', b'b'])").find("'t/a' is a list of texts"),
            std::string::npos);
  EXPECT_EQ(error_of("f.create_dataset('t/a', (4,), 'u1', external=[('/etc/passwd', 0, 4)])")
                .rfind("'t/a': an object header at byte", 0),
            0u);
}

}  // namespace
}  // namespace tessera
