// RunLock: the next training does not overwrite a run folder by accident, whatever it keeps there.

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "tessera/models/data/formats/sealed_file.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/models/study/doctor.h"
#include "tessera/models/study/evaluate_run.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"
#include "tessera/tests/models/run/faulty_files.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;

class RunFolderOwner : public testing::Test {
 protected:
  RunFolderOwner() {
    config_.seed = 3;
    config_.model.name = "cnn_bn";
    config_.model.widths = {4, 4};
    config_.data.batch = 8;
    config_.data.train_count = 48;
    config_.data.test_count = 20;
    config_.data.image_size = 16;
    config_.data.workers = 0;
    config_.optimizer.lr = 0.02;
    config_.train.steps = 6;
    config_.train.log_every = {1, Duration::Unit::kSteps};
    config_.train.evaluate_every = {2, Duration::Unit::kSteps};
    config_.checkpoint.every = {2, Duration::Unit::kSteps};
    config_.checkpoint.keep = 3;
    config_.threads = 1;
    set_log_sink(
        [this](LogLevel, std::string_view text) { warnings_ += std::string(text) + "\n"; });
  }
  ~RunFolderOwner() override { set_log_sink({}); }

  Config config_for(const std::string& name) const {
    Config config = config_;
    config.run.dir = temporary_.path(name);
    return config;
  }
  TrainResult run(const std::string& name, const TrainOptions& options = {}) {
    said_.clear();
    return train(
        config_for(name), [&](const std::string& line) { said_ += line + "\n"; }, options);
  }
  // Stops before the first step, with only the first checkpoint.
  void begin(const std::string& name, TrainOptions options = {}) {
    const std::atomic<int> stop{15};
    options.stop = &stop;
    run(name, options);
  }
  std::string refusal(const std::string& name, const TrainOptions& options = {}) {
    try {
      run(name, options);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  }
  std::string path(const std::string& run, const std::string& name) const {
    return temporary_.path(run) + "/" + name;
  }
  std::string file(const std::string& run, const std::string& name) const {
    return read_all(path(run, name));
  }
  std::map<std::string, std::string> all_files(const std::string& run) const {
    std::map<std::string, std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(temporary_.path(run)))
      if (entry.is_regular_file())
        all[std::filesystem::relative(entry.path(), temporary_.path(run))] =
            read_all(entry.path().string());
    return all;
  }
  bool has(const std::string& run, const std::string& name) const {
    return std::filesystem::exists(path(run, name));
  }

  TemporaryFolder temporary_;
  Config config_;
  std::string said_, warnings_;
};

TEST_F(RunFolderOwner, OneTrainingAFolderWhateverItKeeps) {
  for (int keep : {0, 3}) {
    config_.checkpoint.keep = keep;
    RunLock other(temporary_.path("run"));
    other.make();
    for (const TrainOptions& options :
         {TrainOptions{}, TrainOptions{.resume = "auto"}, TrainOptions{.overwrite = true}})
      EXPECT_NE(refusal("run", options).find("another process is training"), std::string::npos);
    EXPECT_TRUE(all_files("run").empty());
  }
  EXPECT_NO_THROW(run("run"));
}

TEST_F(RunFolderOwner, AFinishedTrainingWithoutCheckpointsIsNotOverwritten) {
  config_.checkpoint.keep = 0;
  run("run");
  const auto before = all_files("run");
  config_.seed = 4;
  for (const TrainOptions& options : {TrainOptions{}, TrainOptions{.resume = "auto"}}) {
    const std::string text = refusal("run", options);
    EXPECT_NE(text.find("already contains a training (weights.safetensors, but no checkpoint"),
              text.npos)
        << text;
    EXPECT_NE(text.find("--overwrite"), text.npos) << text;
    EXPECT_EQ(text.find("--resume"), text.npos) << text;
  }
  EXPECT_EQ(all_files("run"), before);
  run("run", {.overwrite = true});
  EXPECT_NE(file("run", "weights.safetensors"), before.at("weights.safetensors"));
}

TEST_F(RunFolderOwner, WhatWasBrokenOffIsBegunAnewOnlyWhenAsked) {
  config_.checkpoint.keep = 0;
  run("run");
  std::filesystem::remove(path("run", "weights.safetensors"));
  EXPECT_NE(refusal("run").find("(metrics.csv, but no checkpoint"), std::string::npos);
  run("run", {.resume = "auto"});  // a killed job is restarted
  EXPECT_NE(said_.find("starting a new run"), std::string::npos);
  EXPECT_TRUE(has("run", "weights.safetensors"));
}

TEST_F(RunFolderOwner, CheckpointsAreResumedFromWhereNoneAreKeptAnyMore) {
  run("run");
  config_.checkpoint.keep = 0;
  config_.train.steps = 8;
  run("run", {.resume = "auto"});
  EXPECT_NE(said_.find("resumed after step 6 of 8"), std::string::npos) << said_;
  run("run", {.overwrite = true});
  EXPECT_TRUE(CheckpointFolder(checkpoints_path(temporary_.path("run"))).steps().empty());
}

TEST_F(RunFolderOwner, WhatEarlierVersionsLeftInHdf5IsRefusedWithTheRemedyAndOverwritten) {
  const std::string old = path("run", "checkpoints/step-000000006.h5");
  std::filesystem::create_directories(path("run", "checkpoints"));
  write_all(old, "\x89HDF\r\n\x1a\n of an earlier version");
  write_all(path("run", "checkpoints/step-6.h5"), "mine");
  for (const bool weights : {false, true}) {
    if (weights) write_all(path("run", "weights.h5"), "as well");
    const std::string named = weights ? path("run", "weights.h5") : old;
    for (const TrainOptions& options : {TrainOptions{}, TrainOptions{.resume = "auto"},
                                        TrainOptions{.resume = temporary_.path("run")}})
      EXPECT_EQ(
          refusal("run", options),
          "run folder: '" + temporary_.path("run") +
              "' has HDF5 files of an earlier version of this program, which cannot be resumed; "
              "set another run.dir, and model.weights=" +
              named + " to start from these weights");
  }
  write_all(path("run", "config.resolved.yaml"), print_config(config_for("run")));
  try {
    trained_network({temporary_.path("run"), "latest"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("of an earlier version"), std::string::npos);
  }
  try {
    run("run", {.resume = old});
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_NE(std::string(error.what()).find("is an HDF5 file of an earlier version"),
              std::string::npos);
  }
  run("run", {.overwrite = true});
  EXPECT_FALSE(has("run", "weights.h5") || std::filesystem::exists(old));
  EXPECT_EQ(file("run", "checkpoints/step-6.h5"), "mine");
}

TEST_F(RunFolderOwner, OverwritingRemovesAllThatATrainingWroteAndNothingElse) {
  run("run", {.command = "trainer"});
  write_all(path("run", "checkpoints/step-000000004.safetensors.partial"), "half");
  write_all(path("run", "weights.safetensors.partial"), "half");
  const std::map<std::string, std::string> own = {{"notes.txt", "mine"},
                                                  {"checkpoints/notes.txt", "mine"},
                                                  {"events.out.tfevents.1700000000.host.1.0", "x"}};
  for (const auto& [name, text] : own) write_all(path("run", name), text);
  config_.seed = 4;
  config_.mode = Mode::kEager;  // writes no plan
  begin("run", {.overwrite = true});
  for (const char* name : {"weights.safetensors", "weights.safetensors.partial", "report.html",
                           "plan.json", "plan.html", "model.txt", "command.txt"})
    EXPECT_FALSE(has("run", name)) << name;
  EXPECT_EQ(CheckpointFolder(checkpoints_path(temporary_.path("run"))).steps(),
            std::vector<int64_t>{0});
  for (const auto& [name, text] : own) EXPECT_EQ(file("run", name), text);
  config_.mode = Mode::kGraph;
  run("run", {.resume = "auto"});
  for (const char* part : {"train", "validation", "test"}) {
    std::filesystem::create_directories(path("run", part));
    write_all(path("run", std::string(part) + "/events.out.tfevents.1700000000.77"), "x");
  }
  remove_run_files(temporary_.path("run"));
  EXPECT_EQ(all_files("run"), own);
}

TEST_F(RunFolderOwner, ATrainingThatCannotBeginRemovesNothing) {
  run("run");
  const auto before = all_files("run");
  const Config good = config_;
  config_.model.classes = 2;
  EXPECT_THROW(run("run", {.overwrite = true}), ConfigError);
  config_ = good;
  config_.data.train_count = 40;
  EXPECT_THROW(run("run", {.resume = temporary_.path("run")}), ConfigError);
  EXPECT_EQ(all_files("run"), before);
}

// Calls `happen` before read number `when` of a file.
class Meanwhile : public FileSystem {
 public:
  ssize_t pread(int file, void* bytes, size_t count, int64_t offset) override {
    if (++reads == when) happen();
    return FileSystem::pread(file, bytes, count, offset);
  }
  int reads = 0, when = -1;
  std::function<void()> happen;
};

TEST_F(RunFolderOwner, ATrainingThatEndsWhileAnotherGetsReadyIsKept) {
  run("other");
  Meanwhile files;
  const std::string from = CheckpointFolder(checkpoints_path(temporary_.path("other"))).path(6);
  { const CheckpointFile looked_at(from, files); }
  files.when = files.reads + 1;  // the values, read after the run folder was found to be free
  files.reads = 0;
  std::string weights;
  files.happen = [&] {
    config_.seed = 4;
    run("run");
    weights = file("run", "weights.safetensors");
  };
  EXPECT_NE(refusal("run", {.resume = from, .files = &files}).find("already contains a training"),
            std::string::npos);
  EXPECT_NE(weights, "");
  EXPECT_EQ(file("run", "weights.safetensors"), weights);
}

TEST_F(RunFolderOwner, WhatIsNotFiniteIsNeverTheBest) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  config_.checkpoint.best = BestBy::kLoss;
  const Print print = [](const std::string&) {};
  Checkpointing checkpoints(config_for("run"), {}, print);
  TrainingState state;
  state.step = 2;
  checkpoints.evaluated(state, nan, 0.5);
  EXPECT_EQ(state.best_step, -1);
  state.step = 4;
  checkpoints.evaluated(state, 2.5, 0.5);
  state.step = 6;
  checkpoints.evaluated(state, nan, 0.5);
  EXPECT_EQ(state.best_step, 4);
  EXPECT_EQ(state.best_value, 2.5);
}

// Older trainings wrote such checkpoints.
TEST_F(RunFolderOwner, ABestThatIsNotFiniteIsForgotten) {
  config_.checkpoint.best = BestBy::kLoss;
  run("run");
  const CheckpointFolder folder(checkpoints_path(temporary_.path("run")));
  std::string bytes = read_all(folder.path(6));
  const SafetensorsContents contents =
      read_safetensors(MemorySource(std::as_bytes(std::span(bytes))));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const SafeTensor& array : contents.tensors)
    if (array.name == "training/best_value") std::memcpy(&bytes[array.offset], &nan, sizeof nan);
  bytes.resize(bytes.size() - kSealBytes);
  ASSERT_FALSE(
      write_sealed(file_system(), folder.path(6).c_str(), std::as_bytes(std::span(bytes))));
  config_.train.steps = 8;
  const TrainResult result = run("run", {.resume = "auto"});
  EXPECT_EQ(result.best_step, 8);
  EXPECT_TRUE(std::isfinite(result.best_value));
}

TEST_F(RunFolderOwner, TheBestOfAnotherRunComesAlong) {
  config_.optimizer.lr = 0.3;  // so high that the first is the best
  config_.train.evaluate_every = {1, Duration::Unit::kSteps};
  const TrainResult first = run("first");
  ASSERT_LT(first.best_step, 6);
  const CheckpointFolder theirs(checkpoints_path(temporary_.path("first"))),
      ours(checkpoints_path(temporary_.path("fork")));
  begin("fork", {.resume = temporary_.path("first")});
  EXPECT_EQ(ours.named("best"), first.best_step);
  EXPECT_EQ(ours.named("latest"), 6);
  EXPECT_EQ(CheckpointFile(ours.path(first.best_step)).state(),
            CheckpointFile(theirs.path(first.best_step)).state());
  EXPECT_EQ(CheckpointFile(ours.path(6)).state(), CheckpointFile(theirs.path(6)).state());
  const auto accuracy = [&](const char* which) {
    return evaluate_run({temporary_.path("fork"), which}, {}, [](const std::string&) {})
        .test_accuracy;
  };
  EXPECT_EQ(accuracy("best"), first.best_value);
}

TEST_F(RunFolderOwner, ABestThatIsNotThereAnyMoreIsForgotten) {
  config_.optimizer.lr = 0.3;
  config_.train.evaluate_every = {1, Duration::Unit::kSteps};
  const TrainResult first = run("first");
  ASSERT_LT(first.best_step, 6);
  const CheckpointFolder theirs(checkpoints_path(temporary_.path("first")));
  std::filesystem::remove(theirs.path(first.best_step));
  EXPECT_EQ(run("fork", {.resume = temporary_.path("first")}).best_step, -1);
  EXPECT_NE(warnings_.find("the best checkpoint, after step"), std::string::npos) << warnings_;
  EXPECT_EQ(run("first", {.resume = "auto"}).best_step, -1);
}

TEST_F(RunFolderOwner, ADiskThatIsFullAtTheEndCostsNoResult) {
  FaultyFiles files;
  files.set({"write", 1, ENOSPC, true, "/checkpoints/"});
  try {
    run("run", {.files = &files});
    FAIL();
  } catch (const ResultNotKept& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("could not be written"), text.npos) << text;
    EXPECT_NE(text.find("the weights after step 6 are in '" + path("run", "weights.safetensors")),
              text.npos)
        << text;
    EXPECT_EQ(error.exit_code(), 5);
    EXPECT_EQ(error.result.steps, 6);
    EXPECT_GT(error.result.test_loss, 0);
    EXPECT_GT(error.result.confusion.classes, 0);
  }
}

TEST_F(RunFolderOwner, AnEvaluationSaysOfWhichStep) {
  run("run");
  const auto said = [&](const char* which) {
    std::string all;
    evaluate_run({temporary_.path("run"), which}, {},
                 [&](const std::string& line) { all += line + "\n"; });
    return all;
  };
  EXPECT_NE(said("").find("weights.safetensors, after step 6\n"), std::string::npos) << said("");
  EXPECT_NE(said("best").find("step-00000000"), std::string::npos);
  config_.train.steps = 8;
  config_.checkpoint.every = {1, Duration::Unit::kSteps};
  const CheckpointFolder folder(checkpoints_path(temporary_.path("run")));
  std::filesystem::copy(folder.path(6), temporary_.path("six.h5"));
  run("run", {.resume = "auto"});
  std::filesystem::remove(path("run", "weights.safetensors"));
  config_.train.steps = 6;
  run("six", {.resume = temporary_.path("six.h5")});
  std::filesystem::copy(path("six", "weights.safetensors"), path("run", "weights.safetensors"));
  EXPECT_NE(
      said("").find("weights.safetensors, after step 6; the training has continued to step 8"),
      std::string::npos)
      << said("");
}

TEST_F(RunFolderOwner, ADryRunRefusesWhatTheTrainingRefuses) {
  run("run");
  const auto before = all_files("run");
  const RunLock training(temporary_.path("run"));  // locks nothing itself
  const auto refused = [&](const TrainOptions& options) {
    try {
      dry_run(
          config_for("run"), [](const std::string&) {}, options);
    } catch (const Error& error) {
      return fmt::format("{} {}", error.exit_code(), error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused({}).find("2 run folder: '" + temporary_.path("run") +
                             "' already contains a training"),
            0);
  EXPECT_EQ(refused({.overwrite = true}), "");
  EXPECT_EQ(refused({.resume = "auto"}), "");
  EXPECT_EQ(refused({.resume = temporary_.path("nowhere")}).find("5 checkpoint"), 0)
      << refused({.resume = temporary_.path("nowhere")});
  config_.optimizer.lr = 0.5;
  EXPECT_NE(refused({.resume = "auto"}).find("optimizer.lr: 0.5, but the checkpoint"),
            std::string::npos);
  EXPECT_EQ(all_files("run"), before);
}

TEST_F(RunFolderOwner, AFolderThatCannotBeUsedHasOneExitCode) {
  const auto code = [&](const std::string& name, FileSystem& files) {
    try {
      run(name, {.files = &files});
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("run folder: cannot"), std::string::npos)
          << error.what();
      return error.exit_code();
    }
    return 0;
  };
  FaultyFiles files;
  for (const char* name : {"config.resolved.yaml", "env.json", "metrics.csv", "memory.csv"}) {
    files.set({"open", 1, EROFS, true, name});
    EXPECT_EQ(code(std::string("run-") + name, files), 5) << name;
    files.set({});
  }
  write_all(temporary_.path("file"), "");
  EXPECT_EQ(code("file/run", files), 5);
}

}  // namespace
}  // namespace tessera
