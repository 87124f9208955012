// CheckpointFolder and CheckpointWriter: the checkpoints of a run, which no crash can lose.
//
//   RUN/checkpoints/step-000000500.safetensors   after 500 steps (models/run/checkpoint.h)
//   RUN/checkpoints/latest                       the name of the checkpoint to resume from
//   RUN/checkpoints/best                         the name of the best checkpoint, if wanted
//
// A save writes, in this order: the checkpoint; `best` if the checkpoint is the best; `latest`.
// Then it removes checkpoints older than the newest `keep`, except the best. Each file is written
// with write_durably() (to NAME.partial, fsync, rename, fsync of the folder). So after any crash
// `latest` names a complete checkpoint, or an earlier checkpoint is complete. A failed write leaves
// all earlier files.
//
// Names are made from step numbers and never taken from a file, so nothing outside the folder is
// read or written.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/models/run/checkpoint.h"

namespace tessera {

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string dir, FileSystem& files = file_system())
      : dir_(std::move(dir)), files_(files) {}

  const std::string& dir() const { return dir_; }
  FileSystem& files() const { return files_; }
  std::string path(int64_t step) const;

  std::vector<int64_t> steps() const;  // steps with a file, increasing
  // Returns the step that the file `name` ("latest", "best") names; empty if that file is missing
  // or damaged.
  std::optional<int64_t> named(const char* name) const;
  // Returns the steps in the order to try: the latest, older ones, newest first, then newer ones.
  std::vector<int64_t> candidates() const;

  void remove_partial_files() const;

  // For the writer; these functions do not allocate or throw.
  FileError write(int64_t step, std::span<const std::byte> image) const noexcept;
  FileError point(const char* name, int64_t step) const noexcept;
  FileError remove(int64_t step) const noexcept;

 private:
  std::string dir_;
  FileSystem& files_;
};

// Returns the checkpoint folder of a run.
inline std::string checkpoints_path(const std::string& run_dir) { return run_dir + "/checkpoints"; }
// Returns the checkpoint that FOLDER/latest or FOLDER/best names; any other path is returned
// unchanged.
std::string checkpoint_file(const std::string& path, FileSystem& files = file_system());

// The result of writing a checkpoint.
struct CheckpointReport {
  int64_t step = 0;
  bool saved = false;  // the checkpoint is on the disk, even if a later write failed
  FileError fault;
  FileError metrics_fault;  // failed fsync before the checkpoint, which is still written
  double seconds = 0;       // in the background
};

// Writes checkpoints in a background thread, one at a time: save() waits for the previous save.
// Allocates nothing after construction. Not thread-safe.
class CheckpointWriter {
 public:
  // Requires an existing `folder` that no other process uses (models/run/run_folder.h), and keep
  // >= 1. The files `synchronise_first` are synchronised before each checkpoint, so that metrics
  // are not older than the checkpoint. The folder and these files must outlive the writer. At the
  // start no checkpoint is the best.
  CheckpointWriter(const CheckpointFolder& folder, CheckpointImage image, int keep,
                   std::vector<int> synchronise_first = {});
  ~CheckpointWriter();  // finishes a running save

  // Makes `latest`, and `best` if its file exists, name the checkpoints of a resumed training.
  void adopt(const TrainingState& state);
  // Copies the state and all tensors, and returns while the copy is being written.
  void save(const TrainingState& state);
  // Returns the report of a save that ended since the last call, if any.
  std::optional<CheckpointReport> finished();
  // Waits for a running save, if any, and returns its report.
  std::optional<CheckpointReport> wait();

  double wait_seconds() const { return wait_seconds_; }  // time that save() waited for a save
  double copy_seconds() const { return copy_seconds_; }  // time that save() copied

 private:
  void work();
  CheckpointReport persist(const TrainingState& state);
  FileError prune(int64_t step, int64_t best);

  const CheckpointFolder& folder_;
  CheckpointImage image_;
  const size_t keep_;
  const std::vector<int> synchronise_first_;
  std::vector<int64_t> steps_;  // steps with a file, increasing; has capacity for all later steps
  double wait_seconds_ = 0, copy_seconds_ = 0;

  std::mutex mutex_;  // guards the members below; the thread owns image_ and steps_ while busy_
  std::condition_variable changed_;
  bool busy_ = false, stop_ = false;
  TrainingState state_;
  std::optional<CheckpointReport> report_;
  std::thread thread_;
};

}  // namespace tessera
