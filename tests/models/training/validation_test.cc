// data.validation: which images choose the best checkpoint, and when the test set is used.
#include <atomic>
#include <filesystem>
#include <fstream>

#include "tessera/models/run/run_folder.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/study/evaluate_run.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/log.h"
#include "tessera/tests/models/training/run_files.h"

namespace tessera {
namespace {

using namespace testing_checkpoint;

class Validation : public testing::Test {
 protected:
  Validation() {
    config_.model.name = "mlp";
    config_.model.widths = {8};
    config_.data.batch = 16;
    config_.data.image_size = 16;
    config_.data.train_count = 80;
    config_.data.test_count = 30;
    config_.data.validation.percent = 25;
    config_.optimizer.lr = 0.01;
    config_.train.epochs = 4;
    config_.checkpoint.keep = 10;
    config_.run.dir = folder_.path("run");
  }

  TrainResult run(const TrainOptions& options = {}) {
    said_.clear();
    return train(
        config_, [this](const std::string& line) { said_ += line + "\n"; }, options);
  }
  // Returns the lines of metrics of a phase.
  std::vector<Metrics> lines(const std::string& phase) const {
    std::vector<Metrics> all = read_metrics(config_.run.dir + "/metrics.csv");
    std::erase_if(all, [&](const Metrics& line) { return phase != line.phase; });
    return all;
  }

  const TemporaryFolder folder_;
  Config config_;
  std::string said_;
};

TEST_F(Validation, ChoosesTheBestAndTheTestSetIsSeenOnceAtTheEnd) {
  const TrainResult result = run();
  EXPECT_EQ(result.steps, 4 * 4);  // 4 epochs of 60 images
  const std::vector<Metrics> validation = lines("validation"), test = lines("test");
  ASSERT_EQ(validation.size(), 4u);
  ASSERT_EQ(test.size(), 1u);
  EXPECT_EQ(test[0].step, 16);
  EXPECT_NEAR(test[0].accuracy, result.test_accuracy, 1e-7);
  EXPECT_TRUE(result.has_validation);
  EXPECT_NEAR(validation[3].accuracy, result.validation_accuracy, 1e-7);
  double best = -1;
  int64_t step = 0;
  for (const Metrics& line : validation)
    if (line.accuracy > best) best = line.accuracy, step = line.step;
  EXPECT_EQ(result.best_step, step);
  EXPECT_NEAR(result.best_value, best, 1e-7);
  EXPECT_NE(said_.find("synthetic validation: 20 images"), std::string::npos) << said_;
  EXPECT_NE(said_.find("validation loss"), std::string::npos) << said_;
  EXPECT_EQ(said_.find("test loss"), std::string::npos) << said_;
}

// Steps and shuffles depend on the 60 training images, not on the test set.
TEST_F(Validation, TheTestSetDecidesNothing) {
  const TrainResult first = run();
  config_.run.dir = folder_.path("other");
  config_.data.test_count = 17;
  const TrainResult second = run();
  EXPECT_EQ(first.best_step, second.best_step);
  EXPECT_EQ(first.best_value, second.best_value);
  EXPECT_EQ(read_all(folder_.path("run") + "/weights.safetensors"),
            read_all(folder_.path("other") + "/weights.safetensors"));
}

TEST_F(Validation, AFinishedTrainingThatIsResumedTestsAgainWithoutASecondLine) {
  const TrainResult first = run();
  const TrainResult again = run({.resume = "auto"});
  EXPECT_EQ(again.test_accuracy, first.test_accuracy);
  EXPECT_EQ(again.validation_accuracy, first.validation_accuracy);
  EXPECT_EQ(lines("test").size(), 1u);
}

// The signal comes between the last validation and the test.
TEST_F(Validation, ATestThatIsBrokenOffIsMadeUpForOnce) {
  const TrainResult whole = run();
  config_.run.dir = folder_.path("stopped");
  std::atomic<int> stop{0};
  const auto print = [&](const std::string& line) {
    if (line.starts_with("epoch 4/4")) stop = 15;
  };
  EXPECT_EQ(train(config_, print, {.stop = &stop}).stopped_by, 15);
  EXPECT_EQ(lines("validation").size(), 4u);
  EXPECT_TRUE(lines("test").empty());
  EXPECT_FALSE(std::filesystem::exists(config_.run.dir + "/weights.safetensors"));
  const TrainResult result = run({.resume = "auto"});
  EXPECT_EQ(result.stopped_by, 0);
  EXPECT_EQ(result.test_accuracy, whole.test_accuracy);
  EXPECT_EQ(lines("validation").size(), 4u);
  EXPECT_EQ(lines("test").size(), 1u);
  run({.resume = "auto"});
  EXPECT_EQ(lines("test").size(), 1u);
}

TEST_F(Validation, ALongerTrainingTestsAtItsNewEnd) {
  run();
  config_.train.epochs = 5;
  run({.resume = "auto"});
  ASSERT_EQ(lines("test").size(), 2u);
  EXPECT_EQ(lines("test")[1].step, 20);
}

TEST_F(Validation, TheReportSaysOfWhichImagesItsEvaluationsAre) {
  run();
  const std::string own = read_all(config_.run.dir + "/report.html");
  EXPECT_NE(own.find("<td>validation</td>"), own.npos);
  EXPECT_EQ(own.find("was chosen on them"), own.npos);
  config_.run.dir = folder_.path("other");
  config_.data.validation = {};
  run();
  const std::string shared = read_all(config_.run.dir + "/report.html");
  EXPECT_NE(shared.find("The best was chosen on them"), shared.npos);
}

// A training that collapses: the learning rate rises until the weights are useless.
class Collapse : public Validation {
 protected:
  Collapse() {
    config_.data.train_count = 200;
    config_.schedule.warmup = {4, Duration::Unit::kEpochs};
    config_.optimizer.lr = 3;
    config_.optimizer.clip_value = 1;
    config_.checkpoint.best = BestBy::kLoss;
    config_.train.epochs = 4;
  }
  TrainResult evaluate(const std::string& checkpoint) const {
    return evaluate_run({config_.run.dir, checkpoint}, {}, [](const std::string&) {});
  }
};

TEST_F(Collapse, LeavesTheBestWeightsAndTestsThem) {
  const TrainResult result = run();
  ASSERT_LT(result.best_step, result.steps) << "the weights did not collapse";
  ASSERT_GT(result.validation_loss, 10 * result.best_value);
  EXPECT_TRUE(result.best_kept);
  EXPECT_EQ(evaluate("").steps, result.best_step);
  EXPECT_EQ(evaluate("").test_loss, result.test_loss);
  EXPECT_EQ(evaluate("best").test_loss, result.test_loss);
  EXPECT_NE(evaluate("latest").test_loss, result.test_loss);
  ASSERT_EQ(lines("test").size(), 1u);
  EXPECT_NEAR(lines("test")[0].loss, result.test_loss, 1e-6 * result.test_loss);
  EXPECT_NE(read_all(config_.run.dir + "/report.html")
                .find("use the best weights on the validation images"),
            std::string::npos);
}

TEST_F(Collapse, MayLeaveTheLastWeights) {
  const TrainResult best = run();
  config_.run.dir = folder_.path("last");
  config_.checkpoint.use = "last";
  const TrainResult last = run();
  EXPECT_FALSE(last.best_kept);
  EXPECT_EQ(last.best_step, best.best_step);
  EXPECT_EQ(evaluate("").steps, last.steps);
  EXPECT_EQ(evaluate("").test_loss, last.test_loss);
  EXPECT_NE(last.test_loss, best.test_loss);
  // In both cases the last checkpoint is that of the last step.
  EXPECT_EQ(values_after(folder_.path("run"), last.steps),
            values_after(folder_.path("last"), last.steps));
  // Without validation images nothing chooses the best, so the last is used.
  config_.run.dir = folder_.path("without");
  config_.checkpoint.use = "best";
  config_.data.validation = {};
  const TrainResult without = run();
  EXPECT_FALSE(without.best_kept);
  EXPECT_EQ(evaluate("").steps, without.steps);
}

TEST_F(Collapse, GoesOnFromTheLastStepWithTheSameBits) {
  config_.schedule.warmup = {5, Duration::Unit::kEpochs};
  config_.train.epochs = 5;
  const TrainResult whole = run();
  ASSERT_TRUE(whole.best_kept);
  const std::string values = values_after(config_.run.dir, whole.steps);
  const std::string weights = read_all(config_.run.dir + "/weights.safetensors");
  config_.run.dir = folder_.path("pieces");
  config_.train.epochs = 4;
  ASSERT_TRUE(run().best_kept);
  config_.train.epochs = 5;
  run({.resume = "auto"});
  EXPECT_EQ(values_after(config_.run.dir, whole.steps), values);
  EXPECT_EQ(read_all(config_.run.dir + "/weights.safetensors"), weights);
  run({.resume = "auto"});  // already finished
  EXPECT_EQ(values_after(config_.run.dir, whole.steps), values);
  EXPECT_EQ(read_all(config_.run.dir + "/weights.safetensors"), weights);
}

// The process is killed after the test's line is written and before the last checkpoint is.
TEST_F(Collapse, KilledBehindTheTestItHasOneLine) {
  std::atomic<int> stop{0};
  const auto print = [&](const std::string& line) {
    if (line.starts_with("epoch 4/4")) stop = 15;
  };
  const TrainResult stopped = train(config_, print, {.stop = &stop});
  std::ofstream(config_.run.dir + "/metrics.csv", std::ios::app)
      << "4," << stopped.steps << ",test,9,0.5,1,100,\n";
  std::ofstream(config_.run.dir + "/metrics.jsonl", std::ios::app)
      << "{\"epoch\": 4, \"step\": " << stopped.steps << ", \"phase\": \"test\"}\n";
  const TrainResult result = run({.resume = "auto"});
  ASSERT_EQ(lines("test").size(), 1u);
  EXPECT_NEAR(lines("test")[0].loss, result.test_loss, 1e-6 * result.test_loss);
  EXPECT_EQ(lines("validation").size(), 4u);
  const std::string json = read_all(config_.run.dir + "/metrics.jsonl");
  EXPECT_EQ(json.find("\"test\""), json.rfind("\"test\""));
}

// The signal comes while the best weights are tested and are therefore in the tensors.
TEST_F(Collapse, StoppedWhileTheBestAreTestedItKeepsTheLast) {
  const TrainResult whole = run();
  const std::string values = values_after(config_.run.dir, whole.steps);
  config_.run.dir = folder_.path("stopped");
  std::atomic<int> stop{0};
  const auto print = [&](const std::string& line) {
    if (line.starts_with("epoch 4/4")) stop = 15;
  };
  EXPECT_EQ(train(config_, print, {.stop = &stop}).stopped_by, 15);
  EXPECT_EQ(run({.resume = "auto"}).test_loss, whole.test_loss);
  EXPECT_EQ(values_after(config_.run.dir, whole.steps), values);
}

TEST_F(Collapse, ABestCheckpointThatIsDamagedCostsNothingElse) {
  config_.checkpoint.use = "last";
  const TrainResult last = run();
  const std::string values = values_after(config_.run.dir, last.steps);
  const CheckpointFolder folder(checkpoints_path(config_.run.dir));
  write_all(folder.path(last.best_step), "no checkpoint");
  config_.checkpoint.use = "best";
  std::string warnings;
  set_log_sink([&](LogLevel, std::string_view text) { warnings += text; });
  const TrainResult again = run({.resume = "auto"});
  set_log_sink({});
  EXPECT_NE(warnings.find("weights.safetensors holds the last weights, not the best"),
            std::string::npos)
      << warnings;
  EXPECT_FALSE(again.best_kept);
  EXPECT_EQ(again.test_loss, last.test_loss);
  EXPECT_EQ(values_after(config_.run.dir, last.steps), values);
}

std::string evaluated(const std::string& dir, const std::string& checkpoint) {
  std::string said;
  evaluate_run({dir, checkpoint}, {}, [&](const std::string& line) { said += line + "\n"; });
  return said;
}

TEST_F(Validation, AnEvaluationOfTheBestSaysWhatChoseIt) {
  run();
  EXPECT_NE(evaluated(config_.run.dir, "best").find("the best on the validation images"),
            std::string::npos);
  EXPECT_NE(evaluated(config_.run.dir, "").find("the best on the validation images"),
            std::string::npos);
  config_.run.dir = folder_.path("other");
  config_.data.validation = {};
  run();
  EXPECT_NE(evaluated(config_.run.dir, "best").find("chosen on these same test images"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
