// Checkpointing: the checkpoints of a training; rank 0 of several processes writes them. Finds the
// one to resume from, decides when the next is due and which is the best, and reports those that
// cannot be written.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"
#include "tessera/models/run/checkpoint_folder.h"
#include "tessera/models/training/training.h"

namespace tessera {

// Not thread-safe.
class Checkpointing {
 public:
  // Finds the checkpoint to begin from; changes nothing on the disk and locks nothing. Skips
  // damaged checkpoints with a warning. Throws ConfigError if the run folder holds a training that
  // was to be neither resumed nor overwritten, or if the configuration contradicts the checkpoint
  // (names the keys); CheckpointError if no checkpoint can be read or the requested one does not
  // exist.
  Checkpointing(const Config& config, const TrainOptions& options, const Print& print);

  // Returns the checkpoint to begin from; nullptr: from the start.
  const CheckpointFile* beginning() const { return beginning_.get(); }
  // Returns the number of steps whose metrics are in the run folder already.
  std::optional<int64_t> metrics_kept() const {
    return resumes_here() ? std::optional(beginning_->state().step) : std::nullopt;
  }

  // Throws the constructor's ConfigError if the folder holds a training that would be lost.
  void refuse_to_overwrite() const;
  // Removes the files of an earlier training if TrainOptions::overwrite is set. Requires that the
  // folder is locked (models/run/run_folder.h).
  void clear() const;

  // The functions below are called in this order, the first three before anything is written.
  // Throws CheckpointError if the data are not those of the checkpoint to begin from.
  void check_data(int64_t batches, int64_t images) const;
  // Warns if this computer or build may give other bits than the one that wrote the checkpoint;
  // with resume.exact throws CheckpointError. Requires that the device is configured.
  void check_machine(Device device) const;
  // Allocates the memory for checkpoints; `inference` is the padded text (models/run/inference.h).
  void reserve(Tensors tensors, int64_t steps_per_epoch, const std::string& inference);
  // Fills the tensors and the state from the checkpoint to begin from, if there is one.
  void restore(const Tensors& tensors, TrainingState& state) const;
  // Starts the thread that writes checkpoints, in the folder as clear() left it. `metrics` are open
  // files. Copies the best checkpoint from another folder; if that fails, resets state.best_step.
  void start(const Tensors& tensors, TrainingState& state, std::vector<int> metrics);

  // Records the result of an evaluation in the state. A value that is not finite is never the best.
  void evaluated(TrainingState& state, double loss, double accuracy);
  // Returns true if a checkpoint is due after this step. Reports the result of the previous one.
  bool due(const TrainingState& state) const;
  // Saves a checkpoint. Requires due(). Allocates nothing unless an error occurs.
  void save(const TrainingState& state);
  // Saves a checkpoint and waits until it is on the disk. Throws CheckpointError if it cannot be
  // written.
  void save_now(const TrainingState& state);

  // Saves as save_now() does, then loads the best checkpoint into the tensors. Returns false, with
  // the tensors unchanged, if there is no data.validation, checkpoint.use is last, the best step is
  // unknown or is this one, or a file cannot be written or read (after a warning).
  bool take_best(const Tensors& tensors, const TrainingState& state);
  // Loads the checkpoint of a step into the tensors: the best, or that which take_best() saved.
  // Throws CheckpointError.
  void load(const Tensors& tensors, int64_t step) const {
    CheckpointFile(path(step), folder_.files()).load(tensors);
  }

  // The memory that reserve() allocates for a configuration and its tensors; host_buffers() is the
  // memory that it has allocated.
  static std::vector<MemoryItem> planned_buffers(const Config& config, const Tensors& tensors);
  // Returns the minimum disk space of a training: a checkpoint, weights no larger than it, reports.
  static int64_t bytes_on_disk(const Config& config, const Tensors& tensors);
  const std::vector<MemoryItem>& host_buffers() const { return buffers_; }
  const CheckpointWriter* writer() const { return writer_.get(); }
  std::string path(int64_t step) const { return folder_.path(step); }
  // Returns a hint for the error that ends a training: "the last checkpoint is '...': ...".
  std::string last_checkpoint_hint() const;

 private:
  using Clock = std::chrono::steady_clock;
  // False if no checkpoint was found: training then starts from scratch.
  bool resumes_here() const { return in_own_folder_ && beginning_ != nullptr; }
  void check_length() const;
  void find_beginning(const TrainOptions& options);
  void try_candidates(const CheckpointFolder& folder);
  void print_report(const CheckpointReport& report) const;
  bool carry_best(const Tensors& tensors, const TrainingState& state);

  const Config config_;
  const Print print_;
  const bool leads_, overwrite_, resume_auto_;
  CheckpointFolder folder_;
  std::unique_ptr<CheckpointFile> beginning_;
  bool in_own_folder_ = false;
  std::optional<CheckpointImage> image_;  // until it is moved to the writer
  std::unique_ptr<CheckpointWriter> writer_;
  std::vector<MemoryItem> buffers_;
  int64_t every_steps_ = 0;
  bool new_best_ = false;
  Clock::time_point last_ = Clock::now();
};

// Throws ConfigError if the configuration and the checkpoint differ in a key that changes the bits
// of a training; names all such keys. Another precision is allowed: returns a sentence about it, or
// nothing.
std::string check_same_training(const Config& config, const CheckpointFile& checkpoint);

}  // namespace tessera
