// RunFolder: the folder of files that a training writes while it runs; RunLock; and functions for
// files of an earlier training in the folder.
//
//   config.resolved.yaml   every key of the configuration, with the normalization that is used
//   inference.json         the inference description (models/run/inference.h)
//   metrics.csv            epoch,step,phase,loss,accuracy,lr,images_per_second,data_wait,skipped,
//                          loss_scale
//   metrics.jsonl          metrics.csv as one JSON object per line
//   train/, test/,         metrics for TensorBoard, events.out.tfevents.* as separate runs, so that
//   validation/            loss and accuracy of all share a chart (validation: only with
//                          data.validation); train also has batches/loss, batches/accuracy
//                          (within an epoch), host/process_bytes, host/free_bytes
//                          (runtime/host_memory.h)
//   memory.csv             name,bytes of each block of memory that the training holds
//   split.csv              part,file of each picture of a folder, if test or validation pictures
//                          were drawn from it
//   env.json, command.txt  the environment, and the command lines: one more per resume
//   plan.json, plan.html   the plan of the training step, for machines and for people
//   model.txt              the model as a table, and the memory of the step
//   report.html            curves, confusion matrix, result; when training ends
//   weights.safetensors    written by others, at weights_path(dir)
//   checkpoints/           written by others (models/run/checkpoint_folder.h)
//
// A line is in the file when write() returns, so a killed run keeps its lines. While the disk is
// full, lines are lost and the training continues (models/run/record_file.h).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/models/run/record_file.h"
#include "tessera/models/run/tensorboard.h"

namespace tessera {

struct DataSplit;  // models/data/dataset.h

struct Config;      // config.h
struct MemoryItem;  // runtime/raw_memory.h

struct Metrics {
  double epoch = 0;             // epochs done, a fraction within one
  int64_t step = 0;             // steps done
  const char* phase = "train";  // train | validation | test
  double loss = 0;              // mean over the images since the last line of this phase, or epoch
  double accuracy = 0;          // fraction of these images that is correct, in [0, 1]
  double lr = 0;                // learning rate of the last step
  double images_per_second = 0;
  bool whole = true;  // covers all images of the epoch so far, or of the test; not in the files
  double data_wait = NAN;   // fraction of the time since the last line spent waiting for data
  double skipped = NAN;     // training steps so far that updated nothing
  double loss_scale = NAN;  // factor of the last step; not finite if not dynamic
};

// The only writer of a folder. Not thread-safe.
class RunFolder {
 public:
  // Creates the folder and its parents, writes the configuration and starts empty metrics. If the
  // training resumes after `steps_done` steps, keeps the lines up to that step and drops later and
  // incomplete lines, also for TensorBoard, which reads all event files of the folder. `files`
  // writes the metrics and the report. `remarks` are comments below the configuration. `due` are
  // the phases to be evaluated after that step; existing lines of these phases at that step are
  // dropped too. Throws Error naming the path if writing fails.
  explicit RunFolder(const Config& config, std::optional<int64_t> steps_done = {},
                     FileSystem& files = file_system(), const std::string& remarks = "",
                     std::vector<std::string_view> due = {});

  // Writes a file of the folder, completely or not at all. Throws Error if writing fails.
  void put(const char* name, const std::string& text) const { put(name, std::span(&text, 1)); }
  void put(const char* name, std::span<const std::string> pieces) const;
  // Writes a long text in the pieces that `write` supplies; incomplete if the process is killed.
  using Piece = std::function<void(std::string_view)>;
  void put(const char* name, const std::function<void(const Piece&)>& write) const;
  // Writes a file that a training does not need, like put(): a failure is a warning and an entry of
  // incomplete().
  void put_if_possible(const char* name, std::span<const std::string> pieces);
  // Writes command.txt or, if the training resumes, appends a line.
  void add_command(const std::string& command, bool goes_on) const;
  // Writes memory.csv. Throws Error if writing fails.
  void write_memory(const std::vector<MemoryItem>& blocks) const;
  // Writes split.csv, if there is one. Throws Error if writing fails.
  void write_split(const DataSplit& data) const;

  // Appends a line to both metrics files, without allocating. A value that is not finite is an
  // empty field in CSV and null in JSON. If writing fails, a line is missing: a warning for the
  // first line of a file, and an entry of incomplete().
  void write(const Metrics& metrics);

  const std::string& dir() const { return dir_; }
  // Returns the open metrics files, for fsync().
  std::vector<int> descriptors() const;
  // Returns a line for each file with failed writes.
  std::vector<std::string> incomplete() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  int64_t bytes_up_to(const char* name, std::string_view first_line,
                      std::optional<int64_t> steps_done) const;

  FileSystem& files_;
  std::string dir_;
  const std::vector<std::string_view> due_;
  std::vector<std::pair<std::string_view, std::unique_ptr<EventWriter>>> events_;  // by phase
  std::optional<RecordFile> csv_, jsonl_;
  size_t csv_columns_;  // fewer if an earlier version began the file
  std::vector<std::string> not_written_;
};

// Reads a metrics.csv. Skips incomplete lines. Throws DataError if the file cannot be read or is
// not a regular file.
std::vector<Metrics> read_metrics(const std::string& path);

// Check the folder before a training starts; write nothing. Throw RunFolderError if the
// folder is a file or cannot be created or written; require_room: if its disk has less than `bytes`
// free.
void require_run_folder(const std::string& dir);
void require_room(const std::string& dir, int64_t bytes);
// Returns the free bytes of the disk of the folder, which need not exist.
int64_t room_for(const std::string& dir);

// Returns the text of a file of the folder; "" if it is no regular file or cannot be read.
std::string run_file(const std::string& run_dir, const char* name);
// Return the paths that trainer eval --run DIR reads.
inline std::string resolved_config_path(const std::string& run_dir) {
  return run_dir + "/config.resolved.yaml";
}
inline std::string weights_path(const std::string& run_dir) {
  return run_dir + "/weights.safetensors";
}

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
