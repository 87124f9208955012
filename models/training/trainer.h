// The trainer: from a configuration to a trained network, and the questions one asks before.
#pragma once

#include <string>
#include <utility>

#include "tessera/graph/plan_report.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/train_options.h"
#include "tessera/runtime/error.h"

namespace tessera {

struct TrainResult {
  double test_accuracy = 0, test_loss = 0;    // after the last step; accuracy in [0, 1]
  double test_top5 = 0;                       // part that is right among the first five
  double train_accuracy = 0, train_loss = 0;  // over the last steps, as in the last line of
                                              // metrics; NaN where all of them were skipped
  int64_t skipped = 0;        // batches that train.non_finite left out
  int64_t best_step = -1;     // after which checkpoint.best was reached; -1: unknown
  double best_value = 0;      // its accuracy or loss on the test images
  ConfusionMatrix confusion;  // of the test images
  int64_t steps = 0;
  double epochs = 0;
  double seconds = 0;          // of training and evaluation, without opening the data
  int stopped_by = 0;          // TrainOptions::stop, when it ended the training early
  std::string checkpoint;      // the last one; empty when none are written
  double checkpoint_wait = 0;  // seconds that steps waited for one to be copied, or to be written
};

// A training that reached its end, whose weights or last checkpoint could not be written.
class ResultNotKept : public CheckpointError {
 public:
  ResultNotKept(const std::string& text, TrainResult reached)
      : CheckpointError(text), result(std::move(reached)) {}
  TrainResult result;
};

// Trains as configured, writes the run folder and prints a line now and then. A training that goes
// on from a checkpoint ends with the same bits as one that never stopped. Throws ConfigError,
// DataError, DeviceError, CheckpointError when there is nothing good to resume from or the last
// checkpoint cannot be written (ResultNotKept at the end), RunFolderError when the run folder
// cannot be used, and DivergedError when the loss is not finite.
TrainResult train(const Config& config, const Print& print, const TrainOptions& options = {});

// Evaluates a run folder on its test data: the weights at the end of training, or with `checkpoint`
// those of one: "best", "latest" or a file. Throws as train() does.
TrainResult evaluate_run(const std::string& run_dir, const std::string& checkpoint,
                         const std::vector<std::string>& overrides, const Print& print);

// What a training step (and the evaluation that shares its arena) needs and, in its parts, what the
// whole training does, as far as is known without opening the data. Throws ConfigError for an
// unknown pass.
PlanReport plan(const Config& config, const PassSettings& passes = {});

// What a training step asks for in eager mode, whatever config.mode says: nothing is known of it
// ahead, so two steps run on generated batches, and the second is recorded
// (engine/allocation_trace.h).
PlanPicture eager_picture(const Config& config, const std::string& title);

struct BenchResult {
  double images_per_second = 0;  // of the median step
  double step_ms_p50 = 0, step_ms_p95 = 0;
  double first_step_ms = 0, compile_ms = 0;
  double loss = 0;        // of the last step
  size_t peak_bytes = 0;  // asked of the machine for tensors, at most
  int threads = 0;
  std::string kernels;  // native or eigen
  std::string json() const;
};

// Times `steps` training steps on generated batches of the configuration's shape. Throws
// PlanInfeasible as require_fit() does for a timing (fit.h).
BenchResult bench(const Config& config, int64_t steps);

struct VerifyResult {
  int64_t steps = 0;
  size_t plan_bytes = 0;       // of the plan as it will train
  size_t arena_bytes = 0;      // with red zones
  size_t unplanned_bytes = 0;  // of the run that shares nothing
};

// Runs `steps` steps of training on generated batches, every third one smaller and followed by an
// evaluation, in three ways: with planner `none`; with the plan as it will train, its ownership
// replayed; and with the plan watched: dead bytes poisoned, red zones between blocks, ownership
// replayed. Throws InternalError where a kernel does not keep to its bytes, and where a loss or any
// persistent value differs in a bit; PlanInfeasible before anything runs when the training or one
// of these ways needs more than memory.limit.
VerifyResult verify_plan(const Config& config, int64_t steps = 9);

}  // namespace tessera
