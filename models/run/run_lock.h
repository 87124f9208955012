// Whose a run folder is, and what an earlier training left there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/runtime/files/file_system.h"

namespace tessera {

// One process at a time trains in a folder, whatever it keeps there. Not thread-safe.
class RunLock {
 public:
  // Takes the folder when it is there; makes none. Throws ConfigError when another process trains
  // in it, RunFolderError when it cannot be opened.
  explicit RunLock(std::string dir);
  // Makes the folder and takes it, unless that was done. Throws as the constructor does.
  void make();

  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  void take();
  std::string dir_;
  int locked_ = -1;
};

// What tells that a folder holds a training.
struct EarlierTraining {
  std::optional<int64_t> checkpoint;  // the last one's step
  bool weights = false;               // of a training that reached its end
  bool metrics = false;               // a line of them
};
EarlierTraining earlier_training(const std::string& dir, FileSystem& files = file_system());
// Throws ConfigError, which says what to do with its weights, if an earlier version of the
// program left the training in the folder: its weights and checkpoints were HDF5.
void refuse_hdf5_run(const std::string& dir, FileSystem& files = file_system());
// Removes every file that a training writes, and nothing else: a person's own files stay. Throws
// RunFolderError naming the file that cannot be removed.
void remove_run_files(const std::string& dir, FileSystem& files = file_system());

}  // namespace tessera
