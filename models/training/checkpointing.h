// A training's dealings with its checkpoints: what it begins from, when the next one is due, which
// is the best, and what is said when one cannot be written.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"
#include "tessera/models/run/checkpoint_folder.h"
#include "tessera/models/training/trainer.h"

namespace tessera {

// To be used by one thread.
class Checkpointing {
 public:
  // Looks for what to begin from; changes nothing on the disk, and locks nothing. Damaged
  // checkpoints are named in a warning and the one before is tried. Throws ConfigError: the run
  // folder holds a training that was to be neither resumed nor overwritten, or the configuration
  // contradicts the checkpoint (the keys are named); CheckpointError: none of the checkpoints can
  // be read, or the one asked for is not there.
  Checkpointing(const Config& config, const TrainOptions& options, const Print& print);

  // The checkpoint to begin from; nullptr: from the start.
  const CheckpointFile* beginning() const { return beginning_.get(); }
  // The steps done whose metrics are in the run folder already.
  std::optional<int64_t> metrics_kept() const;

  // Throws as the constructor does when the folder holds a training that would be lost.
  void refuse_to_overwrite() const;
  // With TrainOptions::overwrite: removes what an earlier training wrote. The folder must be locked
  // (models/run/run_lock.h).
  void clear() const;

  // In this order, the first three before anything is written. Throws CheckpointError when the data
  // are not those of the checkpoint to begin from.
  void check_data(int64_t batches, int64_t images) const;
  // Warns if the bits may be others than where the checkpoint to begin from was written; with
  // resume.exact throws CheckpointError. Requires that the device is configured.
  void check_machine(Device device) const;
  // Takes the memory for checkpoints. `inference`: the text, of its room (models/run/inference.h).
  void reserve(Tensors tensors, int64_t steps_per_epoch, const std::string& inference);
  // Fills the tensors and the state when there is something to begin from.
  void restore(const Tensors& tensors, TrainingState& state) const;
  // Starts the thread that writes them, in the folder as clear() left it. `metrics`: open files.
  // The best checkpoint of another folder is copied; where it cannot be, the state forgets it.
  void start(const Tensors& tensors, TrainingState& state, std::vector<int> metrics);

  // Notes the result of an evaluation in the state. What is not finite is never the best.
  void evaluated(TrainingState& state, double loss, double accuracy);
  // Whether one is to be saved after this step. Says what became of the one before.
  bool due(const TrainingState& state) const;
  // Where one is due. Allocates nothing unless something went wrong.
  void save(const TrainingState& state);
  // Saves and waits until it is on the disk. Throws CheckpointError when it cannot be written.
  void save_now(const TrainingState& state);

  // With data.validation, unless checkpoint.use is last: saves as save_now() does, then puts the
  // values of the best checkpoint into the tensors. Returns false, after a warning if a file cannot
  // be written or read, and leaves the tensors as they are.
  bool take_best(const Tensors& tensors, const TrainingState& state);
  // Puts the values back that take_best() saved. Throws CheckpointError.
  void put_back(const Tensors& tensors, int64_t step) const;

  // What reserve() takes for a configuration and its tensors, and what it took.
  static std::vector<MemoryItem> planned_buffers(const Config& config, const Tensors& tensors);
  // What a training writes at least: a checkpoint, weights no larger than it, reports.
  static int64_t bytes_on_disk(const Config& config, const Tensors& tensors);
  const std::vector<MemoryItem>& host_buffers() const { return buffers_; }
  const CheckpointWriter* writer() const { return writer_.get(); }
  std::string path(int64_t step) const { return folder_.path(step); }
  // For a person whose training cannot end as it should: "the last checkpoint is '...': ...".
  std::string last_checkpoint_hint() const;

 private:
  using Clock = std::chrono::steady_clock;
  // Where nothing was found, training starts afresh.
  bool resumes_here() const { return in_own_folder_ && beginning_ != nullptr; }
  void check_length() const;
  void find_beginning(const TrainOptions& options);
  void try_candidates(const CheckpointFolder& folder);
  void print_report(const CheckpointReport& report) const;
  bool carry_best(const Tensors& tensors, const TrainingState& state);

  const Config config_;
  const Print print_;
  const bool overwrite_, resume_auto_;
  CheckpointFolder folder_;
  std::unique_ptr<CheckpointFile> beginning_;
  bool in_own_folder_ = false;
  std::optional<CheckpointImage> image_;  // until the writer has it
  std::unique_ptr<CheckpointWriter> writer_;
  std::vector<MemoryItem> buffers_;
  int64_t every_steps_ = 0;
  bool new_best_ = false;
  Clock::time_point last_ = Clock::now();
};

// Throws ConfigError naming the keys that decide about the bits of a training and differ from those
// of the checkpoint.
void check_same_training(const Config& config, const CheckpointFile& checkpoint);

}  // namespace tessera
