// What a training came to.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "tessera/models/run/figures.h"
#include "tessera/runtime/error.h"

namespace tessera {

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

}  // namespace tessera
