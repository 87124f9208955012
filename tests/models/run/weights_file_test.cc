
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tessera/engine/store.h"
#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/run/array_file.h"
#include "tessera/models/run/weights.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<ArraySpec> arrays_in(const std::string& path) {
  std::vector<ArraySpec> arrays;
  const ArrayFile file = open_arrays(std::make_unique<FileSource>(path), true);
  for (const SafeTensor& tensor : file.contents.tensors) arrays.push_back(tensor.spec());
  return arrays;
}

class WeightsFile : public testing::Test {
 protected:
  WeightsFile()
      : dir_(std::filesystem::path(testing::TempDir()) / ("weights_" + std::to_string(getpid()))),
        path_((dir_ / "weights.safetensors").string()) {
    std::filesystem::create_directories(dir_);
    for (size_t i = 0; i < w_.size(); ++i) w_[i] = 0.1f * static_cast<float>(i) - 0.7f;
    for (size_t i = 0; i < b_.size(); ++i) b_[i] = 1.0 / (3.0 + static_cast<double>(i));
  }
  ~WeightsFile() override { std::filesystem::remove_all(dir_); }

  void save() {
    write_weights(path_,
                  std::vector<HostArray>{{{"layer1.0.conv.w", "float32", {2, 3, 4}}, w_.data()},
                                         {{"fc.b", "float64", {5}}, b_.data()},
                                         {{"scale", "float32", {}}, w_.data()}});
  }
  void load() {
    read_weights(path_,
                 std::vector<HostArray>{{{"fc.b", "float64", {5}}, b_in_.data()},
                                        {{"scale", "float32", {}}, &scale_in_},
                                        {{"layer1.0.conv.w", "float32", {2, 3, 4}}, w_in_.data()}});
  }
  bool equal() const { return w_in_ == w_ && b_in_ == b_ && scale_in_ == w_[0]; }
  std::string error_of_load() {
    try {
      load();
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "no error";
  }

  std::filesystem::path dir_;
  std::string path_;
  std::vector<float> w_ = std::vector<float>(24), w_in_ = std::vector<float>(24);
  std::vector<double> b_ = std::vector<double>(5), b_in_ = std::vector<double>(5);
  float scale_in_ = 0;
};

TEST_F(WeightsFile, ComesBackBitForBit) {
  save();
  load();
  EXPECT_TRUE(equal());
  EXPECT_EQ(arrays_in(path_), (std::vector<ArraySpec>{{"fc.b", "float64", {5}},
                                                      {"layer1.0.conv.w", "float32", {2, 3, 4}},
                                                      {"scale", "float32", {}}}));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
}

TEST_F(WeightsFile, TellsWhatInferenceNeeds) {
  save();
  EXPECT_EQ(weights_inference(path_), "");
  const std::vector<HostArray> arrays{{{"fc.b", "float64", {5}}, b_.data()}};
  write_weights(path_, arrays, 7, "{\"model\": \"mlp\"}");
  EXPECT_EQ(weights_inference(path_), "{\"model\": \"mlp\"}");
  EXPECT_EQ(weights_step(path_), 7);
  EXPECT_EQ(arrays_in(path_), (std::vector<ArraySpec>{{"fc.b", "float64", {5}}}));
  read_weights(path_, std::vector<HostArray>{{{"fc.b", "float64", {5}}, b_in_.data()}});
  EXPECT_EQ(b_in_, b_);
}

TEST_F(WeightsFile, NamesEveryDifference) {
  save();
  try {
    read_weights(path_, std::vector<HostArray>{{{"fc.w", "float32", {2}}, w_in_.data()},
                                               {{"fc.b", "float64", {4}}, b_in_.data()},
                                               {{"scale", "float64", {}}, b_in_.data()}});
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_EQ(error.what(),
              "weights '" + path_ +
                  "': does not fit the model:\n"
                  "  missing: 'fc.w', float32 [2]\n"
                  "  different: 'fc.b' is float64 [5] in the file, but float64 [4] in the model\n"
                  "  different: 'scale' is float32 [] in the file, but float64 [] in the model\n"
                  "  unexpected: 'layer1.0.conv.w', float32 [2x3x4]");
    EXPECT_EQ(b_in_, std::vector<double>(5)) << "nothing may be touched";
  }
}

TEST_F(WeightsFile, SurvivesEveryTruncation) {
  save();
  const std::string whole = read(path_);
  for (size_t size = 0; size < whole.size(); ++size) {
    write(path_, whole.substr(0, size));
    EXPECT_NE(error_of_load(), "no error") << size;
  }
}

TEST_F(WeightsFile, FindsEveryFlippedByte) {
  save();
  const std::string whole = read(path_);
  size_t found = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    write(path_, damaged);
    if (error_of_load() == "no error") {
      EXPECT_TRUE(equal()) << i;
    } else {
      ++found;
    }
    w_in_.assign(24, 0);
  }
  EXPECT_EQ(found, whole.size());
}

TEST_F(WeightsFile, WhatWouldBeMisreadIsRefusedByName) {
  save();
  const std::string whole = read(path_);
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string bytes = whole.substr(0, whole.size() - kSealBytes);
    bytes.replace(bytes.find(from), from.size(), to);
    write(path_, testing_checkpoint::sealed(bytes));
    return error_of_load();
  };
  EXPECT_NE(error_with("OHWI", "OIHW").find("has layout 'conv2d OIHW, linear"), std::string::npos);
  EXPECT_NE(
      error_with(R"("2")", R"("3")").find("format_version '3', but this program reads only '2'"),
      std::string::npos);
  EXPECT_NE(error_with("tessera weights", "pytorch weights").find("has format 'pytorch"),
            std::string::npos);
  EXPECT_EQ(error_with("OHWI", "OHWI"), "no error");
  write(path_, "\x89HDF\r\n\x1a\n of an earlier version");
  EXPECT_NE(error_of_load().find("is an HDF5 file of an earlier version of this program"),
            std::string::npos);
}

TEST_F(WeightsFile, WhatIsNoWeightFileIsAnError) {
  EXPECT_NE(error_of_load().find("cannot be opened: No such file"), std::string::npos);
  write(path_, "");
  EXPECT_NE(error_of_load().find("is damaged: it has only 0 bytes"), std::string::npos);
  write(path_, std::string(5000, 'x'));
  EXPECT_NE(error_of_load().find("is not a safetensors file, or is damaged: its header would"),
            std::string::npos);
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_NE(error_of_load().find(path_), std::string::npos);
}

TEST_F(WeightsFile, RefusesNamesThatCannotBeStored) {
  auto error_of = [&](std::vector<HostArray> arrays) {
    try {
      write_weights(path_, arrays);
    } catch (const CheckpointError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error_of({{{"a/b", "float32", {1}}, w_.data()}}).find("'a/b'"), std::string::npos);
  EXPECT_NE(error_of({{{"", "float32", {1}}, w_.data()}}).find("''"), std::string::npos);
  EXPECT_NE(error_of({{{"a", "int8", {1}}, w_.data()}}).find("dtype int8"), std::string::npos);
  EXPECT_NE(error_of({{{"a", "float32", {-1}}, w_.data()}}).find("[-1]"), std::string::npos);
  EXPECT_NE(error_of({{{"a", "float32", {1}}, w_.data()}, {{"a", "float32", {1}}, w_.data()}})
                .find("the name 'a' is given twice"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(WeightsFile, AWriteThatFailsLeavesTheOldFile) {
  save();
  const std::string before = read(path_);
  std::vector<float> large(1 << 20, 1.0f);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 100000;  // simulates a full disk: writes beyond it fail
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::vector<HostArray> arrays{{{"a", "float32", {1 << 20}}, large.data()}};
  EXPECT_THROW(write_weights(path_, arrays), CheckpointError);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read(path_), before);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".partial"));
  load();
  EXPECT_TRUE(equal());
}

TEST_F(WeightsFile, PlainPythonReadsAndChangesIt) {
  save();
  constexpr char kScript[] = R"(
import json, struct, sys
data = open(sys.argv[1], 'rb').read()
size = int.from_bytes(data[:8], 'little')
header, values = json.loads(data[8:8 + size]), bytearray(data[8 + size:])
assert sorted(header) == ['__metadata__', 'checksum', 'fc.b', 'layer1.0.conv.w', 'scale'], header
assert header['__metadata__']['format'] == 'tessera weights'
assert header['layer1.0.conv.w'] == {'dtype': 'F32', 'shape': [2, 3, 4], 'data_offsets': [40, 136]}
assert abs(struct.unpack_from('<24f', values, 40)[23] - 1.6) < 1e-6
assert header['fc.b']['dtype'] == 'F64' and header['scale']['shape'] == []
struct.pack_into('<d', values, header['fc.b']['data_offsets'][0], 42.0)
end = header.pop('checksum')['data_offsets'][0]
text = json.dumps(header).encode()
open(sys.argv[1], 'wb').write(struct.pack('<Q', len(text)) + text + values[:end])
)";
  write((dir_ / "check.py").string(), kScript);
  ASSERT_EQ(std::system(("python3 " + (dir_ / "check.py").string() + " " + path_).c_str()), 0);
  load();  // files of other programs have no checksum
  EXPECT_EQ(b_in_[0], 42.0);
  EXPECT_EQ(w_in_, w_);
}

TEST(Weights, AStoreIsSavedAndLoadedByName) {
  const std::string path = testing::TempDir() + "/store_weights.safetensors";
  const auto declare = [](Store& store) {
    store.parameter("fc.weight", {3, 2}, Initializer::normal(1));
    store.buffer("bn.running_mean", {3}, Initializer::ones());
    store.optimizer_state("optimizer.m.fc.weight", {3, 2}, Initializer::ones());
  };
  Store trained(1), other(2);
  declare(trained);
  declare(other);
  save_weights(trained, path, 7);
  EXPECT_EQ(weights_step(path), 7);
  EXPECT_EQ(arrays_in(path).size(), 2u);  // no optimizer state
  const auto values = [](const Store& store) { return store.find("fc.weight").to_vector<float>(); };
  EXPECT_NE(values(trained), values(other));
  load_weights(other, path);
  EXPECT_EQ(values(trained), values(other));
  Store smaller;
  smaller.parameter("fc.weight", {3, 2}, Initializer::zeros());
  EXPECT_THROW(load_weights(smaller, path), CheckpointError);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tessera
