// A training that stops after any step and resumes ends with the bits of one that never stopped:
// weights, metrics, the last checkpoint. TESSERA_LONG_TESTS=1: every step, 0 to 4 loader workers
// and 1 to 4 threads.
#include <cstdlib>
#include <regex>
#include <sstream>

#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/tests/models/run/faulty_files.h"
#include "tessera/tests/models/training/run_files.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;

bool long_tests() { return std::getenv("TESSERA_LONG_TESTS") != nullptr; }

class Resume : public testing::Test {
 protected:
  Resume() {
    config_.seed = 3;
    config_.model.name = "cnn_bn";
    config_.model.widths = {4, 4, 8, 8};
    config_.model.dropout = 0.25;
    config_.data.batch = 8;
    config_.data.train_count = 44;  // six batches, the last of four
    config_.data.test_count = 20;
    config_.data.image_size = 16;
    config_.data.workers = 2;
    AugmentConfig crop, flip;
    crop.kind = "crop";
    crop.padding = 2;
    flip.kind = "flip";
    config_.data.augment = {crop, flip};
    config_.optimizer.lr = 0.02;
    config_.optimizer.weight_decay = 1e-4;
    config_.schedule.name = ScheduleKind::kCosine;
    config_.train.steps = long_tests() ? 54 : 16;
    config_.train.log_every = {4, Duration::Unit::kSteps};
    config_.train.evaluate_every = {5, Duration::Unit::kSteps};
    config_.checkpoint.every = {7, Duration::Unit::kSteps};
    config_.threads = 2;
    set_log_sink(
        [this](LogLevel, std::string_view text) { warnings_ += std::string(text) + "\n"; });
  }
  ~Resume() override { set_log_sink({}); }

  // Trains in the folder; stops after `stop_after` steps unless that is 0.
  TrainResult run(const std::string& name, const TrainOptions& given = {}, int64_t stop_after = 0) {
    TrainOptions options = given;
    std::atomic<int> stop{0};
    options.stop = &stop;
    Config config = config_;
    config.run.dir = temporary_.path(name);
    said_.clear();
    const Print print = [&](const std::string& line) { said_ += line + "\n"; };
    if (stop_after > 0) {
      config.train.log_every = config_.train.log_every;
      return train_until(config, print, options, stop, stop_after);
    }
    return train(config, print, options);
  }
  // Sets the flag in the step's own probe (models/training/runs_ahead.h), like a signal.
  TrainResult train_until(const Config& config, const Print& print, const TrainOptions& options,
                          std::atomic<int>& stop, int64_t stop_after);

  std::string file(const std::string& run, const std::string& name) const {
    return read_all(temporary_.path(run) + "/" + name);
  }
  std::string last_checkpoint(const std::string& run) const {
    const CheckpointFolder folder(checkpoints_path(temporary_.path(run)));
    return read_all(folder.path(*config_.train.steps));
  }
  std::string last_values(const std::string& run) const {
    return values_after(temporary_.path(run), *config_.train.steps);
  }
  void expect_same(const std::string& run, const std::string& reference) const {
    EXPECT_EQ(file(run, "weights.safetensors"), file(reference, "weights.safetensors")) << run;
    EXPECT_EQ(without_speed(file(run, "metrics.csv")),
              without_speed(file(reference, "metrics.csv")))
        << run;
    EXPECT_EQ(last_values(run), last_values(reference)) << run;
  }

  TemporaryFolder temporary_;
  Config config_;
  std::string said_, warnings_;
};

// State of the probe below: after g_left more steps it sets *g_stop.
std::atomic<int>* g_stop = nullptr;
int64_t g_left = 0;

}  // namespace
}  // namespace tessera

extern "C" void tessera_step_begin() {}
extern "C" void tessera_step_end() {
  if (tessera::g_stop != nullptr && --tessera::g_left == 0) *tessera::g_stop = 15;
}

namespace tessera {
namespace {

TrainResult Resume::train_until(const Config& config, const Print& print,
                                const TrainOptions& options, std::atomic<int>& stop,
                                int64_t stop_after) {
  g_stop = &stop;
  g_left = stop_after;
  const TrainResult result = train(config, print, options);
  g_stop = nullptr;
  return result;
}

TEST_F(Resume, AfterAnyStepGivesTheSameBits) {
  run("whole");
  const int64_t steps = *config_.train.steps;
  int64_t points = 0;
  for (int64_t stop = 1; stop < steps; stop += long_tests() ? 1 : 3) {
    const std::string name = "stopped" + std::to_string(stop);
    config_.threads = static_cast<int>(1 + stop % 4);
    config_.data.workers = static_cast<int>(stop % 5);
    const TrainResult stopped = run(name, {}, stop);
    EXPECT_EQ(stopped.stopped_by, 15);
    EXPECT_EQ(stopped.steps, stop);
    config_.threads = static_cast<int>(1 + (stop + 1) % 4);
    config_.data.workers = static_cast<int>((stop + 2) % 5);
    const TrainResult result = run(name, {.resume = "auto"});
    EXPECT_NE(said_.find("resumed after step " + std::to_string(stop)), std::string::npos) << said_;
    EXPECT_EQ(result.stopped_by, 0);
    expect_same(name, "whole");
    std::filesystem::remove_all(temporary_.path(name));
    ++points;
  }
  RecordProperty("stop_points", std::to_string(points));
}

TEST_F(Resume, TheLossScaleGoesOnAndMayBeginOrEndThere) {
  config_.precision = Precision::f16;
  config_.train.loss_scale_interval = 3;
  run("whole");
  run("stopped", {}, 5);
  run("stopped", {.resume = "auto"});
  expect_same("stopped", "whole");
  run("changes", {}, 3);
  config_.precision = Precision::bf16;
  run("changes", {.resume = "auto"}, 3);
  EXPECT_NE(said_.find("precision: bf16, but the checkpoint was trained with f16"),
            std::string::npos);
  config_.precision = Precision::f16;
  run("changes", {.resume = "auto"});
}

TEST_F(Resume, StoppingAgainAndAgainGivesTheSameBitsInEagerModeToo) {
  config_.optimizer.name = "adamw";
  config_.optimizer.lr = 0.003;
  run("whole");
  config_.mode = Mode::kEager;
  run("pieces", {}, 2);
  for (int64_t stop : {3, 1, 4}) run("pieces", {.resume = "auto"}, stop);
  config_.mode = Mode::kGraph;
  run("pieces", {.resume = "auto"});
  expect_same("pieces", "whole");
}

TEST_F(Resume, AFinishedTrainingGoesOnWhenItIsMadeLonger) {
  const int64_t steps = *config_.train.steps;
  config_.schedule.name = ScheduleKind::kConstant;
  run("whole");
  config_.train.steps = steps - 6;
  run("longer");
  const TrainResult again = run("longer", {.resume = "auto"});  // already finished
  EXPECT_EQ(again.steps, steps - 6);
  EXPECT_GT(again.test_loss, 0);
  config_.train.steps = steps;
  run("longer", {.resume = temporary_.path("longer")});
  EXPECT_EQ(file("longer", "weights.safetensors"), file("whole", "weights.safetensors"));
  config_.train.steps = 3;
  const std::string resolved = file("longer", "config.resolved.yaml");
  EXPECT_THROW(run("longer", {.resume = "auto"}), ConfigError);
  EXPECT_EQ(file("longer", "config.resolved.yaml"), resolved) << "a refusal changes nothing";
}

TEST_F(Resume, WithNothingThereStartsAfreshAndSaysSo) {
  run("fresh", {.resume = "auto"}, 2);
  EXPECT_NE(said_.find("nothing to resume"), std::string::npos);
  EXPECT_THROW(run("other", {.resume = temporary_.path("nowhere")}), CheckpointError);
  EXPECT_THROW(run("other", {.resume = temporary_.path()}), CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(temporary_.path("other")));
}

TEST_F(Resume, AFolderThatHoldsATrainingIsNotOverwrittenByAccident) {
  run("run", {}, 8);
  const std::string metrics = file("run", "metrics.csv");
  try {
    run("run");
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("--resume"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("--overwrite"), std::string::npos);
  }
  EXPECT_EQ(file("run", "metrics.csv"), metrics);
  run("run", {.overwrite = true}, 3);
  EXPECT_EQ(CheckpointFolder(checkpoints_path(temporary_.path("run"))).steps(),
            std::vector<int64_t>{3});
}

TEST_F(Resume, AnotherConfigurationIsRefusedNamingTheKeys) {
  run("run", {}, 3);
  config_.optimizer.lr = 0.03;
  config_.data.batch = 4;
  config_.threads = 1;
  config_.train.log_every = {2, Duration::Unit::kSteps};
  try {
    run("run", {.resume = "auto"});
    FAIL();
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("\n  optimizer.lr: 0.03, but the checkpoint was trained with 0.02"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("\n  data.batch: 4, but the checkpoint was trained with 8"),
              std::string::npos);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  }
}

TEST_F(Resume, ADamagedCheckpointIsNamedAndTheOneBeforeTaken) {
  run("whole");
  run("run", {}, 15);  // checkpoints after 14 and 15 steps
  const CheckpointFolder folder(checkpoints_path(temporary_.path("run")));
  ASSERT_EQ(folder.steps().back(), 15);
  std::string bytes = read_all(folder.path(15));
  bytes[bytes.size() / 2] ^= 4;
  write_all(folder.path(15), bytes);
  run("run", {.resume = "auto"});
  EXPECT_NE(warnings_.find("step-000000015.safetensors': is damaged"), std::string::npos)
      << warnings_;
  EXPECT_NE(said_.find("resumed after step 14"), std::string::npos) << said_;
  expect_same("run", "whole");

  for (int64_t step : folder.steps()) write_all(folder.path(step), "no checkpoint");
  EXPECT_THROW(run("run", {.resume = "auto"}), CheckpointError);
  EXPECT_EQ(file("run", "weights.safetensors"), file("whole", "weights.safetensors"));
}

TEST_F(Resume, AnOlderCheckpointOrOneOfAnotherRunCanBeNamed) {
  config_.checkpoint.keep = 5;
  run("whole");
  const CheckpointFolder folder(checkpoints_path(temporary_.path("whole")));
  run("fork", {.resume = folder.path(7)});
  EXPECT_EQ(file("fork", "weights.safetensors"), file("whole", "weights.safetensors"));
  EXPECT_EQ(file("fork", "metrics.csv").find("\n1,6,"), std::string::npos);
  const std::string metrics = without_speed(file("whole", "metrics.csv"));
  run("whole", {.resume = folder.path(7)}, 1);
  EXPECT_EQ(folder.named("latest"), 8);
  EXPECT_EQ(folder.candidates()[0], 8);
  run("whole", {.resume = folder.dir() + "/latest"});
  EXPECT_EQ(without_speed(file("whole", "metrics.csv")), metrics);
}

TEST_F(Resume, AFullDiskCostsACheckpointButNotTheTraining) {
  run("whole");
  FaultyFiles files;
  files.set({"write", 1, ENOSPC, false, "/checkpoints/"});  // write of the first checkpoint
  run("full", {.files = &files});
  EXPECT_NE(warnings_.find("could not be written"), std::string::npos) << warnings_;
  EXPECT_NE(warnings_.find("No space left"), std::string::npos) << warnings_;
  expect_same("full", "whole");
  files.set({"write", 1, ENOSPC, true, "/checkpoints/"});
  EXPECT_THROW(run("always", {.files = &files}), CheckpointError);
  EXPECT_EQ(file("always", "weights.safetensors"), file("whole", "weights.safetensors"));
}

TEST_F(Resume, AFullDiskCostsMetricsButNotTheTraining) {
  run("whole");
  for (const char* name : {"metrics.csv", "metrics.jsonl", "tfevents"}) {
    FullDisk disk(name, 300);
    const TrainResult result = run("full", {.overwrite = true, .files = &disk});
    EXPECT_EQ(result.steps, *config_.train.steps);
    EXPECT_EQ(file("full", "weights.safetensors"), file("whole", "weights.safetensors"));
    EXPECT_EQ(last_values("full"), last_values("whole"));
    EXPECT_NE(warnings_.find("cannot be written: No space left"), std::string::npos) << warnings_;
    EXPECT_NE(warnings_.find("the run folder is not complete: "), std::string::npos) << warnings_;
    EXPECT_NE(warnings_.find(std::string(name) == "tfevents" ? " points (" : " lines ("),
              std::string::npos)
        << warnings_;
    warnings_.clear();
  }
}

TEST_F(Resume, AfterAFullDiskMetricsGoOnWhereTheyStand) {
  run("whole");
  FullDisk disk("metrics.", 300);
  run("run", {.files = &disk}, 9);
  const std::string kept = without_speed(file("run", "metrics.csv"));
  EXPECT_TRUE(without_speed(file("whole", "metrics.csv")).starts_with(kept));
  run("run", {.resume = "auto"});
  const std::string all = without_speed(file("run", "metrics.csv"));
  EXPECT_TRUE(all.starts_with(kept)) << all;
  const std::string whole = without_speed(file("whole", "metrics.csv"));
  const std::string later = whole.substr(whole.find("\n1.66666667,10,") + 1);
  EXPECT_TRUE(all.ends_with(later)) << all;
  EXPECT_EQ(file("run", "weights.safetensors"), file("whole", "weights.safetensors"));
}

TEST_F(Resume, MetricsThatCannotBeSynchronisedCostNoCheckpoint) {
  FaultyFiles files;
  files.set({"fsync", 1, EIO, true, "metrics."});
  EXPECT_EQ(run("run", {.files = &files}).steps, *config_.train.steps);
  EXPECT_NE(warnings_.find("may not be on the disk"), std::string::npos) << warnings_;
  run("whole");
  expect_same("run", "whole");
}

TEST_F(Resume, WeightsThatCannotBeWrittenCostNoCheckpoint) {
  run("whole");
  const std::string in_the_way = temporary_.path("run") + "/weights.safetensors/in/the/way";
  std::filesystem::create_directories(in_the_way);
  try {
    run("run");
    FAIL();
  } catch (const CheckpointError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("weights.safetensors': cannot be written"), text.npos) << text;
    EXPECT_NE(
        text.find(
            "step-000000016.safetensors': fix the problem and continue from it with --resume"),
        text.npos)
        << text;
  }
  EXPECT_NE(file("run", "report.html"), "");
  std::filesystem::remove_all(temporary_.path("run") + "/weights.safetensors");
  run("run", {.resume = "auto"});
  expect_same("run", "whole");
}

TEST_F(Resume, AReportThatCannotBeWrittenCostsNothingElse) {
  std::filesystem::create_directories(temporary_.path("run") + "/report.html/in_the_way");
  run("run");
  EXPECT_NE(warnings_.find("not complete: run folder: cannot rename"), std::string::npos)
      << warnings_;
  run("whole");
  expect_same("run", "whole");
}

TEST_F(Resume, WithoutABarTheLogIsPrintedToo) {
  config_.train.steps = 6;
  config_.train.log_every = {2, Duration::Unit::kSteps};
  config_.train.evaluate_every = {0, Duration::Unit::kSteps};
  run("run");
  const std::regex line(
      "epoch [\\d.]+/1  step (\\d+)  train loss [\\d.]+ acc [\\d.]+ %\\s+"
      "(test loss [\\d.]+ acc [\\d.]+ %\\s+)?lr [\\d.e-]+\\s+wait \\d+ %\\s+\\d+ s\n");
  std::string steps;
  for (std::sregex_iterator at(said_.begin(), said_.end(), line), end; at != end; ++at)
    steps += (*at)[1].str() + ((*at)[2].matched ? "t " : " ");
  EXPECT_EQ(steps, "2 4 6t ") << said_;
  std::istringstream lines(said_.substr(said_.find("epoch ")));
  for (std::string text; std::getline(lines, text) && !text.starts_with("memory:");)
    EXPECT_LE(text.size(), 80u) << text;
}

TEST_F(Resume, MetricsAreCutWhereALineWasBeingWritten) {
  run("whole");
  run("run", {}, 9);
  for (const char* name : {"metrics.csv", "metrics.jsonl"}) {
    const std::string path = temporary_.path("run") + "/" + name;
    const std::string text = read_all(path);
    write_all(path, text + text.substr(text.size() - 40, 30));
  }
  run("run", {.resume = "auto"});
  expect_same("run", "whole");
  const std::string json = file("run", "metrics.jsonl");
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), std::count(json.begin(), json.end(), '{'));
}

TEST_F(Resume, NothingIsWrittenWhenNothingIsToBeKept) {
  config_.checkpoint.keep = 0;
  EXPECT_EQ(run("run", {}, 3).checkpoint, "");
  EXPECT_FALSE(std::filesystem::exists(checkpoints_path(temporary_.path("run"))));
}

}  // namespace
}  // namespace tessera
