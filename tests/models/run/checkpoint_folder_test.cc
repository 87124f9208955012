// CheckpointFolder: which checkpoints are kept, which one is resumed from, and which are left when
// any call of the operating system fails.
#include "tessera/models/run/checkpoint_folder.h"

#include <algorithm>

#include "tessera/models/run/run_folder.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"
#include "tessera/tests/models/run/faulty_files.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;
using Steps = std::vector<int64_t>;

constexpr char kConfig[] = "seed: 5\n";

class Folder : public testing::Test {
 protected:
  Folder() : folder_(temporary_.path("checkpoints"), files_) { make_run_folder(folder_.dir()); }

  std::unique_ptr<CheckpointWriter> writer(const Tensors4& tensors, int keep = 2) {
    return std::make_unique<CheckpointWriter>(folder_,
                                              CheckpointImage(tensors.persistent(), kConfig), keep);
  }
  CheckpointReport save(CheckpointWriter& writer, TrainingState state, int64_t best = -1) {
    state.best_step = best;
    writer.save(state);
    return *writer.wait();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.dir()))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder temporary_;
  FaultyFiles files_;
  CheckpointFolder folder_;
};

TEST_F(Folder, KeepsTheNewestAndTheBest) {
  const Tensors4 tensors;
  const auto writer = this->writer(tensors, 2);
  EXPECT_FALSE(save(*writer, state_at(10), 10).fault);
  for (int64_t step : {20, 30, 40}) EXPECT_FALSE(save(*writer, state_at(step), 10).fault);
  EXPECT_EQ(folder_.steps(), (Steps{10, 30, 40}));
  EXPECT_EQ(names(),
            (std::vector<std::string>{"best", "latest", "step-000000010.safetensors",
                                      "step-000000030.safetensors", "step-000000040.safetensors"}));
  EXPECT_EQ(folder_.named("best"), 10);
  EXPECT_EQ(folder_.named("latest"), 40);
  EXPECT_FALSE(save(*writer, state_at(50), 50).fault);
  EXPECT_EQ(folder_.steps(), (Steps{40, 50}));  // the best is among the newest
  EXPECT_EQ(folder_.named("best"), 50);
  EXPECT_EQ(CheckpointFile(folder_.path(50)).state().best_step, 50);
}

TEST_F(Folder, WhatIsNewerThanWhereTrainingGoesOnIsNotLatestAndNotRemoved) {
  const Tensors4 tensors;
  {
    const auto writer = this->writer(tensors, 3);
    for (int64_t step : {10, 20, 30}) save(*writer, state_at(step));
  }
  const auto writer = this->writer(tensors, 1);
  writer->adopt(state_at(10));
  EXPECT_EQ(folder_.named("latest"), 10);
  EXPECT_EQ(folder_.candidates(), (Steps{10, 30, 20}));
  EXPECT_FALSE(save(*writer, state_at(15)).fault);
  EXPECT_EQ(folder_.steps(), (Steps{15, 20, 30}));
  EXPECT_EQ(folder_.candidates(), (Steps{15, 30, 20}));
}

TEST_F(Folder, ALatestThatIsMissingOrDamagedIsNotNeeded) {
  const Tensors4 tensors;
  const auto writer = this->writer(tensors, 3);
  for (int64_t step : {10, 20, 30}) save(*writer, state_at(step));
  for (const char* text : {"", "step-000000020.safetensors", "../step-000000020.safetensors\n",
                           "step-20.safetensors\n", "step-000000020.safetensors.partial\n",
                           "/etc/passwd\n", "step--00000020.safetensors\n"}) {
    write_all(folder_.dir() + "/latest", text);
    EXPECT_EQ(folder_.named("latest"), std::nullopt) << text;
    EXPECT_EQ(folder_.candidates(), (Steps{30, 20, 10})) << text;
  }
  write_all(folder_.dir() + "/latest", "step-000000020.safetensors\n");
  EXPECT_EQ(folder_.candidates(), (Steps{20, 10, 30}));
}

TEST_F(Folder, OnlyOurOwnFilesCount) {
  for (const char* name :
       {"step-1.safetensors", "step-000000001.safetensors.partial", "step-000000002.safetensorsx",
        "best", "step-0000000003.safetensors", "latest.partial", "notes.partial"})
    write_all(folder_.dir() + "/" + name, "x");
  EXPECT_EQ(folder_.steps(), Steps());
  remove_run_files(temporary_.path());
  EXPECT_EQ(names(),
            (std::vector<std::string>{"notes.partial", "step-0000000003.safetensors",
                                      "step-000000002.safetensorsx", "step-1.safetensors"}));
}

TEST_F(Folder, APipeIsNotWaitedFor) {
  ASSERT_EQ(std::system(("mkfifo " + folder_.path(5)).c_str()), 0);
  EXPECT_THROW(CheckpointFile(folder_.path(5)), CheckpointError);
}

// Loads the newest valid checkpoint and returns its step; -1 if there is none.
int64_t newest_good(const CheckpointFolder& folder, const Tensors4& into) {
  for (int64_t step : folder.candidates()) {
    try {
      const CheckpointFile file(folder.path(step));
      file.load(into.persistent());
      return file.state().step;
    } catch (const CheckpointError&) {
    }
  }
  return -1;
}

// Every call of every kind fails in every way, once or forever, while a third checkpoint replaces
// two older ones.
class Faults : public Folder {
 protected:
  void expect_nothing_lost(const Fault& fault) {
    const Tensors4 first(1), into(9);
    std::filesystem::remove_all(folder_.dir());
    std::filesystem::create_directories(folder_.dir());
    files_.set({});
    const auto writer = this->writer(first, 1);
    save(*writer, state_at(10), 10);
    save(*writer, state_at(20), 10);
    files_.set(fault);
    const CheckpointReport report = save(*writer, state_at(30), 30);
    files_.set({});
    ++cases_;
    const int64_t good = newest_good(folder_, into);
    EXPECT_EQ(into.bytes(), first.bytes()) << fault.text();
    EXPECT_TRUE(report.saved ? good == 30 || good == 20 : good == 20) << fault.text() << good;
    if (!report.fault) {
      EXPECT_EQ(good, 30) << fault.text();
      EXPECT_EQ(folder_.steps(), Steps{30}) << fault.text();
      EXPECT_EQ(folder_.named("best"), 30) << fault.text();
    } else {
      ++reported_;
      EXPECT_GT(report.fault.error, 0) << fault.text();
    }
    const bool once = !fault.forever;
    const bool passing = fault.error == EINTR || fault.error == Fault::kShort;
    if (passing && (once || fault.error == Fault::kShort)) {
      EXPECT_FALSE(report.fault) << fault.text();
    }
    // The next checkpoint is written as usual.
    EXPECT_FALSE(save(*writer, state_at(40), 40).fault) << fault.text();
    EXPECT_EQ(newest_good(folder_, into), 40) << fault.text();
    EXPECT_EQ(folder_.steps(), Steps{40}) << fault.text();
    for (const std::string& name : names())
      EXPECT_FALSE(name.ends_with(".partial")) << fault.text();
  }
  int cases_ = 0, reported_ = 0;
};

TEST_F(Faults, OfEveryCallLoseNothing) {
  files_.set({});
  {
    const Tensors4 tensors;
    const auto writer = this->writer(tensors, 1);
    save(*writer, state_at(10), 10);
    save(*writer, state_at(20), 10);
    files_.set({});
    save(*writer, state_at(30), 30);
  }
  std::map<std::string, int> calls;
  for (const char* call : {"open", "write", "fsync", "close", "rename", "unlink"})
    calls[call] = files_.count(call);
  EXPECT_GE(calls["open"], 6);  // three files and their folder
  EXPECT_GE(calls["fsync"], 6);
  EXPECT_EQ(calls["rename"], 3);
  EXPECT_EQ(calls["unlink"], 2);
  for (const auto& [call, count] : calls)
    for (int number = 1; number <= count; ++number)
      for (int error : {EIO, ENOSPC, EACCES, EINTR, Fault::kShort, Fault::kNothing})
        for (bool forever : {false, true})
          if (error > 0 || call == "write") expect_nothing_lost({call, number, error, forever});
  EXPECT_GT(reported_, cases_ / 2);
  RecordProperty("cases", std::to_string(cases_));
  RecordProperty("reported", std::to_string(reported_));
}

TEST_F(Faults, OfReadingAreErrorsAndShortReadsAreNot) {
  const Tensors4 tensors(1), into(2);
  const auto writer = this->writer(tensors);
  save(*writer, state_at(10));
  for (const char* call : {"open", "pread"})
    for (int error : {EIO, EINTR, Fault::kShort})
      for (bool forever : {false, true}) {
        const Fault fault{call, 1, error, forever};
        if (error == Fault::kShort && fault.call == "open") continue;
        files_.set(fault);
        bool good = true;
        try {
          const CheckpointFile file(folder_.path(10), files_);
          file.load(into.persistent());
          EXPECT_EQ(into.bytes(), tensors.bytes()) << fault.text();
        } catch (const CheckpointError&) {
          good = false;
        }
        EXPECT_EQ(good, error == Fault::kShort || (error == EINTR && !forever)) << fault.text();
      }
}

}  // namespace
}  // namespace tessera
