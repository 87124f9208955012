// A store with one tensor of each kind, and a folder for its checkpoints.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/engine/storage.h"
#include "tessera/engine/store.h"
#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/run/checkpoint.h"

namespace tessera::testing_checkpoint {

inline std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_all(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Returns `bytes` with their checksum appended.
inline std::string sealed(std::string bytes) {
  char seal[kSealBytes];
  make_seal(std::as_bytes(std::span(bytes)), seal);
  return bytes.append(seal, kSealBytes);
}

// A folder of the current test, removed at its end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "_" + test->name();
    for (char& c : name) c = c == '/' ? '_' : c;
    dir_ = std::filesystem::path(::testing::TempDir()) / (name + std::to_string(getpid()));
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(dir_); }
  std::string path(const std::string& name = "") const {
    return name.empty() ? dir_.string() : (dir_ / name).string();
  }

 private:
  std::filesystem::path dir_;
};

// A store whose values depend on `mark`: two marks differ in every tensor.
class Tensors4 {
 public:
  explicit Tensors4(uint64_t mark = 1) : store_(mark) {
    store_.parameter("a.w", {3, 5}, Initializer::normal(1));
    store_.parameter("a.b", {5}, Initializer::uniform(1), DType::f64);
    store_.buffer("bn.running_mean", {5}, Initializer::normal(2));
    store_.optimizer_state("optimizer.momentum.a.w", {3, 5}, Initializer::normal(3));
    store_.optimizer_state("optimizer.step", {1},
                           Initializer{Initializer::Kind::constant, double(mark)}, DType::i64);
    store_.materialize();
  }
  Tensors persistent() const { return store_.persistent(); }
  std::string bytes() const {
    std::string all;
    for (const Tensor& tensor : store_.persistent())
      all.append(static_cast<const char*>(data(tensor)), tensor.spec().bytes());
    return all;
  }
  void clear() const {
    for (const Tensor& tensor : store_.persistent())
      std::memset(data(tensor), 0, tensor.spec().bytes());
  }

 private:
  static void* data(const Tensor& tensor) { return tensor.impl()->data(); }
  Store store_;
};

inline TrainingState state_at(int64_t step) {
  TrainingState state;
  state.batches = 7;
  state.step = step;
  state.epoch = step / 7;
  state.batch = step % 7;
  state.images = 100;
  state.seed = 5;
  state.lr = 0.125;
  state.log_images = 48;
  state.log_loss = 1.5;
  state.log_correct = 20;
  state.schedule_version = 1;
  return state;
}

}  // namespace tessera::testing_checkpoint
