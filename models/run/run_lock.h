// RunLock: the lock of a run folder, and functions for files of an earlier training in the folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/runtime/files/file_system.h"

namespace tessera {

// Lets one process at a time train in a folder. Not thread-safe.
class RunLock {
 public:
  // Locks the folder if it exists; does not create it. Throws ConfigError if another process trains
  // in the folder, RunFolderError if the folder cannot be opened.
  explicit RunLock(std::string dir);
  // Creates and locks the folder unless it is locked already. Throws like the constructor.
  void make();

  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  void take();
  std::string dir_;
  int locked_ = -1;
};

// The traces of a training in a folder.
struct EarlierTraining {
  std::optional<int64_t> checkpoint;  // step of the last checkpoint
  bool weights = false;               // final weights of a training
  bool metrics = false;               // a line of metrics
};
EarlierTraining earlier_training(const std::string& dir, FileSystem& files = file_system());
// Throws ConfigError, with a remedy, if an earlier version of the program trained in the folder,
// whose weights and checkpoints were HDF5.
void refuse_hdf5_run(const std::string& dir, FileSystem& files = file_system());
// Removes every file that a training writes, and no other file. Throws RunFolderError naming the
// file that cannot be removed.
void remove_run_files(const std::string& dir, FileSystem& files = file_system());

}  // namespace tessera
