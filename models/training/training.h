// TrainOptions and TrainResult: what train() takes besides the configuration, and what it returns.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/models/run/metrics.h"

namespace tessera {

class Exchange;  // runtime/exchange/exchange.h
class FileSystem;

using Print = std::function<void(const std::string& line)>;

struct TrainOptions {
  // "": from the start; "auto": from the newest good checkpoint of the run folder, or from the
  // start if there is none; else a run folder or a checkpoint file.
  std::string resume = {};
  bool overwrite = false;  // start from scratch: deletes the files of a training in the run folder
  // If it becomes nonzero (a signal's number, say), the current step is finished, a checkpoint is
  // written and train() returns. Read between steps and between batches of an evaluation.
  const std::atomic<int>* stop = nullptr;
  // If it is true, a checkpoint is written after the current step and it is reset to false.
  std::atomic<bool>* save = nullptr;
  std::string command = {};  // for command.txt of the run folder; "": none
  bool quiet = false;        // no progress bar; Print still receives all lines
  // The processes that share the training; nullptr: this one alone. Each calls train() with the
  // same configuration. Rank 0 writes the run folder and prints lines.
  std::shared_ptr<Exchange> exchange = nullptr;
  FileSystem* files = nullptr;  // for checkpoints, metrics, report; nullptr: file_system()
  FileSystem& file_system() const;
};

// The results of a training.
struct TrainResult {
  double test_accuracy = 0, test_loss = 0;  // for the saved weights; accuracy in [0, 1]
  double test_top5 = 0;                     // top-5 accuracy
  // On the images of data.validation, if there are any, after the last step.
  bool has_validation = false;
  double validation_accuracy = 0, validation_loss = 0;
  double train_accuracy = 0, train_loss = 0;  // over the last epoch, as in the last line of
                                              // metrics; NaN if all its batches were skipped
  int64_t skipped = 0;                        // batches from which nothing was updated
  int64_t test_images = 0;
  bool chosen_on_test = false;  // for an evaluation: the test images chose these weights, so the
                                // test is not fair
  int64_t best_step = -1;       // the step that was best by checkpoint.best; -1: unknown
  double best_value = 0;        // its accuracy or loss on data.validation, or else on the test
                                // images, which then are no fair test of it
  bool best_kept = false;       // weights.safetensors and the test are of best_step
  ConfusionMatrix confusion;    // on the test images
  int64_t steps = 0;
  double epochs = 0;
  double seconds = 0;          // in training and evaluation, without opening the data
  int stopped_by = 0;          // TrainOptions::stop, if that ended the training early
  std::string checkpoint;      // the last one; empty if none are written
  double checkpoint_wait = 0;  // seconds that steps waited for checkpoints to be copied or written
};

}  // namespace tessera
