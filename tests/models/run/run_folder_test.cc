#include "tessera/models/run/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/models/config/config.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/run/tensorboard.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/tests/models/run/event_reader.h"
#include "tessera/tests/models/run/faulty_files.h"

namespace tessera {
namespace {

using testing_checkpoint::FullDisk;
using Steps = std::vector<int64_t>;

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class RunFolderTest : public testing::Test {
 protected:
  RunFolderTest()
      : root_(std::filesystem::path(testing::TempDir()) /
              ("run_folder_" + std::to_string(getpid()))) {
    config_.run.dir = (root_ / "deep/er").string();
    set_log_sink(
        [this](LogLevel, std::string_view text) { warnings_ += std::string(text) + "\n"; });
  }
  ~RunFolderTest() override {
    set_log_sink({});
    std::filesystem::remove_all(root_);
  }

  static Metrics line(int64_t step) { return {.step = step}; }
  // Returns the steps of the lines of a metrics file; -1 for an incomplete line.
  std::vector<int64_t> steps_in(const std::string& name) const {
    std::istringstream lines(read(config_.run.dir + "/" + name));
    std::vector<int64_t> steps;
    for (std::string text; std::getline(lines, text);) {
      if (text.starts_with("epoch,")) continue;
      std::smatch found;
      const std::regex csv("0,(\\d+),train,0,0,0,0,,,"),
          json("\\{\"epoch\": 0, \"step\": (\\d+), .*\\}");
      const bool whole = std::regex_match(text, found, csv) || std::regex_match(text, found, json);
      steps.push_back(whole ? std::stoll(found[1]) : -1);
    }
    return steps;
  }

  std::filesystem::path root_;
  Config config_;
  std::string warnings_;
};

TEST_F(RunFolderTest, WritesEachLineAtOnce) {
  RunFolder folder(config_);
  folder.write({0.25, 50, "train", 1.5, 0.625, 0.1, 4096, true, 0.125, 3, 1024});
  // The folder is still open, but the lines must be in the file already.
  EXPECT_EQ(read(config_.run.dir + "/metrics.csv"),
            "epoch,step,phase,loss,accuracy,lr,images_per_second,data_wait,skipped,loss_scale\n"
            "0.25,50,train,1.5,0.625,0.1,4096,0.125,3,1024\n");
  EXPECT_EQ(read(config_.run.dir + "/metrics.jsonl"),
            "{\"epoch\": 0.25, \"step\": 50, \"phase\": \"train\", \"loss\": 1.5, \"accuracy\": "
            "0.625, \"lr\": 0.1, \"images_per_second\": 4096, \"data_wait\": 0.125, "
            "\"skipped\": 3, \"loss_scale\": 1024}\n");
}

TEST_F(RunFolderTest, MetricsOfAFormerProgramKeepTheirColumns) {
  for (const std::string wait : {"", ",data_wait"}) {
    const std::string cell = wait.empty() ? "" : ",0.5";
    const std::string before = "epoch,step,phase,loss,accuracy,lr,images_per_second" + wait +
                               "\n0.25,50,train,1.5,0.625,0.1,4096" + cell + "\n";
    std::filesystem::create_directories(config_.run.dir);
    std::ofstream(config_.run.dir + "/metrics.csv")
        << before << "0.5,100,train,1,0.75,0.1,4096" << cell << "\n";
    RunFolder folder(config_, 50);
    folder.write({0.5, 100, "train", 1.25, 0.75, 0.1, 2048, true, 0.5, 3, 1024});
    EXPECT_EQ(read(config_.run.dir + "/metrics.csv"),
              before + "0.5,100,train,1.25,0.75,0.1,2048" + cell + "\n");
  }
}

// TensorBoard draws points of one name in one chart, with a curve for each folder of event files.
TEST_F(RunFolderTest, TrainingAndTestShareTheirCharts) {
  {
    RunFolder folder(config_);
    folder.write({0.5, 50, "train", 1.5, 0.5, 0.1, 4096, /*whole=*/false});
    folder.write({1, 100, "train", 1.25, 0.75, 0.1, 4096, true, 0.5, 3, 1024});
    folder.write({1, 100, "test", 1.0, 0.25, 0.1, 4096});
  }
  const auto curves = [&](const std::string& part) {
    std::map<std::string, std::map<int64_t, float>> found;
    for (const auto& entry : std::filesystem::directory_iterator(config_.run.dir + "/" + part))
      for (const EventScalar& point : read_events(entry.path().string()))
        found[point.tag][point.step] = point.value;
    return found;
  };
  auto train = curves("train"), test = curves("test");
  using Points = std::map<int64_t, float>;
  EXPECT_EQ(train["loss"], (Points{{100, 1.25f}}));
  EXPECT_EQ(test["loss"], (Points{{100, 1.0f}}));
  EXPECT_EQ(train["accuracy"], (Points{{100, 0.75f}}));
  EXPECT_EQ(test["accuracy"], (Points{{100, 0.25f}}));
  EXPECT_EQ(train["batches/loss"], (Points{{50, 1.5f}}));
  EXPECT_EQ(train["batches/accuracy"], (Points{{50, 0.5f}}));
  EXPECT_EQ(train["lr"], (Points{{50, 0.1f}, {100, 0.1f}}));
  EXPECT_EQ(train["host/process_bytes"].size(), 2u);
  EXPECT_EQ(train["data_wait"][100], 0.5f);
  EXPECT_EQ(train["skipped"], (Points{{100, 3.f}}));
  EXPECT_EQ(train["loss_scale"], (Points{{100, 1024.f}}));
  EXPECT_EQ(test.count("data_wait"), 0u);
}

TEST_F(RunFolderTest, ValidationHasItsFolderOfEventsWhereThereIsOne) {
  { RunFolder(config_).write(line(1)); }
  EXPECT_FALSE(std::filesystem::exists(config_.run.dir + "/validation"));
  config_.data.validation.count = 10;
  {
    RunFolder folder(config_);
    folder.write({1, 100, "train", 1.25, 0.75, 0.1, 4096});
    folder.write({1, 100, "validation", 1.5, 0.5, 0.1, 4096});
    folder.write({1, 100, "test", 1.0, 0.25, 0.1, 4096});
  }
  const auto losses = [&](const std::string& part) {
    std::vector<float> found;
    for (const auto& entry : std::filesystem::directory_iterator(config_.run.dir + "/" + part))
      for (const EventScalar& point : read_events(entry.path().string()))
        if (point.tag == "loss" && point.step == 100) found.push_back(point.value);
    return found;
  };
  EXPECT_EQ(losses("train"), std::vector{1.25f});
  EXPECT_EQ(losses("validation"), std::vector{1.5f});
  EXPECT_EQ(losses("test"), std::vector{1.0f});
}

TEST_F(RunFolderTest, ValuesThatAreNotFiniteLeaveValidFiles) {
  RunFolder folder(config_);
  folder.write({1, 100, "test", std::numeric_limits<double>::quiet_NaN(),
                std::numeric_limits<double>::infinity(), 0, 0});
  EXPECT_NE(read(config_.run.dir + "/metrics.csv").find("\n1,100,test,,,0,0,,,\n"),
            std::string::npos);
  EXPECT_NE(read(config_.run.dir + "/metrics.jsonl").find("\"loss\": null, \"accuracy\": null"),
            std::string::npos);
}

TEST_F(RunFolderTest, KeepsTheResolvedConfigurationAndStartsMetricsAnew) {
  { RunFolder(config_).write({}); }
  RunFolder folder(config_);
  EXPECT_EQ(read(config_.run.dir + "/metrics.jsonl"), "");
  EXPECT_EQ(print_config(load_config(resolved_config_path(config_.run.dir))),
            print_config(config_));
}

// The disk is full in the middle of the third line and has space again for the fifth.
TEST_F(RunFolderTest, AFullDiskCostsLinesButNoFileAndNoTraining) {
  for (const char* name : {"metrics.csv", "metrics.jsonl"}) {
    const std::string path = config_.run.dir + "/" + name;
    FullDisk disk(name, 1 << 20);
    RunFolder folder(config_, {}, disk);
    warnings_.clear();
    folder.write(line(1));
    folder.write(line(2));
    const std::string good = read(path);
    disk.make_room(10);
    folder.write(line(3));
    EXPECT_EQ(read(path), good) << "the half line is taken back";
    folder.write(line(4));
    EXPECT_TRUE(warnings_.starts_with("'" + path + "' cannot be written: No space left"))
        << warnings_;
    EXPECT_EQ(std::count(warnings_.begin(), warnings_.end(), '\n'), 1) << warnings_;
    disk.make_room(1 << 20);
    folder.write(line(5));
    EXPECT_EQ(steps_in(name), (Steps{1, 2, 5}));
    const std::string other = path.ends_with("csv") ? "metrics.jsonl" : "metrics.csv";
    EXPECT_EQ(steps_in(other), (Steps{1, 2, 3, 4, 5}));
    EXPECT_EQ(
        folder.incomplete(),
        std::vector<std::string>{"'" + path + "' lacks 2 of 5 lines (No space left on device)"});
    // Resuming after step 4 keeps the two lines that are there and appends to them.
    RunFolder resumed(config_, 4);
    EXPECT_EQ(read(path), good);
    EXPECT_EQ(steps_in(other), (Steps{1, 2, 3, 4}));
    resumed.write(line(5));
    EXPECT_EQ(steps_in(name), (Steps{1, 2, 5}));
    EXPECT_TRUE(resumed.incomplete().empty());
  }
}

// The training was killed after the line of an evaluation and before its checkpoint.
TEST_F(RunFolderTest, TheLineOfAnEvaluationThatIsMadeAgainIsDropped) {
  {
    RunFolder folder(config_);
    for (const char* phase : {"train", "validation", "test"})
      folder.write({1, 100, phase, 1.5, 0.5, 0.1, 4096});
  }
  const auto phases = [&] {
    std::string all;
    for (const Metrics& line : read_metrics(config_.run.dir + "/metrics.csv"))
      all += std::string(line.phase) + " ";
    return all;
  };
  { const RunFolder resumed(config_, 100); }
  EXPECT_EQ(phases(), "train validation test ");
  { const RunFolder resumed(config_, 100, file_system(), "", {"test"}); }
  EXPECT_EQ(phases(), "train validation ");
  { const RunFolder resumed(config_, 100, file_system(), "", {"validation", "test"}); }
  EXPECT_EQ(phases(), "train ");
}

TEST_F(RunFolderTest, NothingIsWrittenBehindAHalfLineThatCannotBeTakenBack) {
  FullDisk disk("metrics.csv", 1 << 20);
  RunFolder folder(config_, {}, disk);
  folder.write(line(1));
  const std::string good = read(config_.run.dir + "/metrics.csv");
  disk.make_room(3);
  disk.refuse_to_cut(true);
  folder.write(line(2));
  disk.make_room(1 << 20);
  folder.write(line(3));
  EXPECT_EQ(read(config_.run.dir + "/metrics.csv"), good + "0,2");
  { const RunFolder resumed(config_, 9); }  // drops the half line
  EXPECT_EQ(read(config_.run.dir + "/metrics.csv"), good);
  disk.refuse_to_cut(false);
  folder.write(line(4));
  EXPECT_EQ(steps_in("metrics.csv"), (Steps{1, 4}));
}

TEST_F(RunFolderTest, ADiskThatIsFullFromTheStart) {
  FullDisk disk("metrics.csv", 10);
  RunFolder folder(config_, {}, disk);
  folder.write(line(1));
  EXPECT_EQ(read(config_.run.dir + "/metrics.csv"), "");
  disk.make_room(1 << 20);
  folder.write(line(2));
  EXPECT_EQ(read(config_.run.dir + "/metrics.csv").find("epoch,step,phase,"), 0u);
  EXPECT_EQ(steps_in("metrics.csv"), Steps{2});
}

TEST_F(RunFolderTest, WhatATrainingCanDoWithoutIsAWarning) {
  RunFolder folder(config_);
  std::filesystem::create_directories(config_.run.dir + "/report.html/in_the_way");
  EXPECT_THROW(folder.put("report.html", "text"), Error);
  EXPECT_EQ(warnings_, "");
  folder.put_if_possible("report.html", std::vector<std::string>{"text"});
  EXPECT_NE(warnings_.find("/report.html'"), std::string::npos) << warnings_;
  EXPECT_EQ(folder.incomplete().size(), 1u);
}

std::string refusal(const std::function<void()>& ask) {
  try {
    ask();
  } catch (const RunFolderError& error) {
    return error.what();
  }
  return "";
}

TEST_F(RunFolderTest, WhatATrainingNeedsOfItIsAskedWithoutWriting) {
  const std::string dir = config_.run.dir;
  require_run_folder(dir);
  require_room(dir, 1);
  const std::string full = refusal([&] { require_room(dir, INT64_MAX); });
  EXPECT_NE(full.find("the disk has only "), full.npos) << full;
  EXPECT_NE(full.find("free disk space, or set another run.dir"), full.npos) << full;
  EXPECT_FALSE(std::filesystem::exists(root_));
  std::ofstream(root_) << "a file";
  const std::string file = refusal([&] { require_run_folder(dir); });
  EXPECT_NE(file.find("cannot create '" + dir + "'"), file.npos) << file;
  EXPECT_NE(file.find("'" + root_.string() + "' is not a folder"), file.npos) << file;
}

TEST_F(RunFolderTest, OneThatOthersOwnIsRefusedBeforeItIsWritten) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to act as another user";
  std::filesystem::create_directories(root_);
  ASSERT_EQ(setresuid(65534, 65534, 0), 0);
  const std::string text = refusal([&] { require_run_folder(config_.run.dir); });
  ASSERT_EQ(setresuid(0, 0, 0), 0);
  EXPECT_NE(text.find("is not writable: Permission denied; check run.dir"), text.npos) << text;
}

TEST_F(RunFolderTest, APlaceThatCannotBeWrittenIsAnError) {
  config_.run.dir = "/dev/null/run/deep";
  try {
    RunFolder folder(config_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(config_.run.dir), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
