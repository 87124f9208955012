// The checkpoints of a run, and how they are written so that nothing can be lost.
//
//   RUN/checkpoints/step-000000500.safetensors   after 500 steps (models/run/checkpoint.h)
//   RUN/checkpoints/latest                       the name of the one to go on from
//   RUN/checkpoints/best                         the name of the best one, if one is wanted
//
// Writing, in this order, each file as write_durably() does it (to NAME.partial, fsync, rename,
// fsync of the folder): the checkpoint; `best` if it is the best; `latest`; then what is older than
// the newest `keep` is removed, never the best one. So whenever the process is killed or the
// machine stops, `latest` names a whole checkpoint, or one before it is whole. A write that fails
// leaves all that was there before.
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
  explicit CheckpointFolder(std::string dir, FileSystem& files = file_system());

  const std::string& dir() const { return dir_; }
  FileSystem& files() const { return files_; }
  std::string path(int64_t step) const;

  std::vector<int64_t> steps() const;  // that have a file, rising
  // What the little file `name` ("latest", "best") names; none when it is missing or damaged.
  std::optional<int64_t> named(const char* name) const;
  // In the order in which to try: the latest, what is older, newest first, then what is newer.
  std::vector<int64_t> candidates() const;

  // Throws RunFolderError when it cannot be made.
  void make() const;
  void remove_partial_files() const;

  // For the writer; these allocate nothing and throw nothing.
  FileError write(int64_t step, std::span<const std::byte> image) const noexcept;
  FileError point(const char* name, int64_t step) const noexcept;
  FileError remove(int64_t step) const noexcept;

 private:
  std::string dir_;
  FileSystem& files_;
};

// The folder of the checkpoints of a run.
std::string checkpoints_path(const std::string& run_dir);
// The checkpoint that a path means: the one that FOLDER/latest or FOLDER/best names, else the path
// itself.
std::string checkpoint_file(const std::string& path, FileSystem& files = file_system());

// How the writing of a checkpoint ended.
struct CheckpointReport {
  int64_t step = 0;
  bool saved = false;  // the checkpoint is on the disk, whatever went wrong later
  FileError fault;
  FileError metrics_fault;  // of synchronising the files before it, which is written all the same
  double seconds = 0;       // in the background
};

// Writes checkpoints in a thread of its own. One at a time: a save waits for the one before. After
// construction it asks for no memory. To be used by one thread.
class CheckpointWriter {
 public:
  // `folder`, which must be there and no other process's (models/run/run_lock.h), and the files to
  // be synchronised before each checkpoint (for metrics that must not be behind it) must outlive
  // it. keep >= 1. At the start no checkpoint is the best.
  CheckpointWriter(const CheckpointFolder& folder, CheckpointImage image, int keep,
                   std::vector<int> synchronise_first = {});
  ~CheckpointWriter();  // finishes what is in hand

  // The training goes on from a checkpoint of the folder: `latest` names it from now on.
  void adopt(const TrainingState& state);
  // Copies everything, and returns while it is being written.
  void save(const TrainingState& state);
  // The report of a save that has ended since the last call, if one has.
  std::optional<CheckpointReport> finished();
  // Waits for the save in hand, if there is one.
  std::optional<CheckpointReport> wait();

  double wait_seconds() const { return wait_seconds_; }  // that save() waited for the one before
  double copy_seconds() const { return copy_seconds_; }  // that save() copied

 private:
  void work();
  CheckpointReport persist(const TrainingState& state);
  FileError prune(int64_t step, int64_t best);

  const CheckpointFolder& folder_;
  CheckpointImage image_;
  const size_t keep_;
  const std::vector<int> synchronise_first_;
  std::vector<int64_t> steps_;  // with a file, rising; has room for all to come
  double wait_seconds_ = 0, copy_seconds_ = 0;

  std::mutex mutex_;  // guards what is below; the thread has image_ and steps_ while busy_
  std::condition_variable changed_;
  bool busy_ = false, stop_ = false;
  TrainingState state_;
  std::optional<CheckpointReport> report_;
  std::thread thread_;
};

}  // namespace tessera
