// data.validation: what chooses the best checkpoint, and when the test set is looked at.
#include <atomic>
#include <filesystem>

#include "tessera/models/run/run_folder.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/training/evaluate_run.h"
#include "tessera/models/training/trainer.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

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
  // The lines of metrics of a phase.
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
  EXPECT_EQ(result.steps, 4 * 4);  // of 60 images
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

// Steps and shuffles follow from the 60 images alone: the test set changes nothing.
TEST_F(Validation, TheTestSetDecidesNothing) {
  const TrainResult first = run();
  config_.run.dir = folder_.path("other");
  config_.data.test_count = 17;
  const TrainResult second = run();
  EXPECT_EQ(first.best_step, second.best_step);
  EXPECT_EQ(first.best_value, second.best_value);
  EXPECT_EQ(read_all(folder_.path("run") + "/weights.h5"),
            read_all(folder_.path("other") + "/weights.h5"));
}

TEST_F(Validation, AFinishedTrainingThatIsResumedTestsAgainWithoutASecondLine) {
  const TrainResult first = run();
  const TrainResult again = run({.resume = "auto"});
  EXPECT_EQ(again.test_accuracy, first.test_accuracy);
  EXPECT_EQ(again.validation_accuracy, first.validation_accuracy);
  EXPECT_EQ(lines("test").size(), 1u);
}

// The signal comes between the last evaluation and the one of the test set.
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
  EXPECT_FALSE(std::filesystem::exists(config_.run.dir + "/weights.h5"));
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
  EXPECT_NE(shared.find("the best of these was chosen on them"), shared.npos);
}

std::string evaluated(const std::string& dir, const std::string& checkpoint) {
  std::string said;
  evaluate_run(dir, {.checkpoint = checkpoint},
               [&](const std::string& line) { said += line + "\n"; });
  return said;
}

TEST_F(Validation, AnEvaluationOfTheBestSaysWhatChoseIt) {
  run();
  EXPECT_NE(evaluated(config_.run.dir, "best").find("the best on the validation images"),
            std::string::npos);
  EXPECT_EQ(evaluated(config_.run.dir, "").find("best"), std::string::npos);
  config_.run.dir = folder_.path("other");
  config_.data.validation = {};
  run();
  EXPECT_NE(evaluated(config_.run.dir, "best").find("chosen on the test images that now test it"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera
