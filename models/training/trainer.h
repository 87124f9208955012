// The trainer: from a configuration to a trained network.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tessera/models/config/config.h"
#include "tessera/models/run/metrics.h"
#include "tessera/runtime/error.h"

namespace tessera {

class FileSystem;

using Print = std::function<void(const std::string& line)>;

// How a training is started, beside what it trains.
struct TrainOptions {
  // "": from the start; "auto": from the newest good checkpoint of the run folder, from the start
  // where there is none; else a run folder or a checkpoint file.
  std::string resume = {};
  bool overwrite = false;  // begin anew in a run folder that holds a training: its files go
  // When it is not 0 (a signal's number, say), the step in hand is finished, a checkpoint written
  // and training returns. Looked at between steps and between batches of an evaluation.
  const std::atomic<int>* stop = nullptr;
  // When it is true, a checkpoint is written after the step in hand, and it is false again.
  std::atomic<bool>* save = nullptr;
  std::string command = {};     // for command.txt of the run folder; "": none
  bool quiet = false;           // no progress bar; what is printed is for Print to leave out
  FileSystem* files = nullptr;  // for checkpoints, metrics, report; nullptr: the machine's
};

// Figures that a training came to.
struct TrainResult {
  double test_accuracy = 0, test_loss = 0;  // of the weights that are kept; accuracy in [0, 1]
  double test_top5 = 0;                     // part that is right among the first five
  // On the images of data.validation, where there are some, after the last step.
  bool has_validation = false;
  double validation_accuracy = 0, validation_loss = 0;
  double train_accuracy = 0, train_loss = 0;  // over the last epoch, as in the last line of
                                              // metrics; NaN where all of it was skipped
  int64_t skipped = 0;                        // batches that train.non_finite left out
  int64_t test_images = 0;
  bool chosen_on_test = false;  // of an evaluation: these weights were, so it is no fair test
  int64_t best_step = -1;       // after which checkpoint.best was reached; -1: unknown
  double best_value = 0;        // its accuracy or loss on the images of data.validation; without
                                // them on those of the test, which then are no fair test of it
  bool best_kept =
      false;  // weights.safetensors and the test are of best_step, not of the last step
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

}  // namespace tessera
