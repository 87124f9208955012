// The run folder: what a training writes about itself while it goes.
//
//   config.resolved.yaml   every key of the configuration, with the normalization that is used
//   inference.json         what inference needs besides weights.safetensors
//   (models/run/inference.h) metrics.csv
//   epoch,step,phase,loss,accuracy,lr,images_per_second,data_wait metrics.jsonl          the same,
//   one JSON object a line train/, test/          the same for TensorBoard, events.out.tfevents.*
//   as runs of their own, so validation/            that loss and accuracy of all share a chart
//   (validation: only with
//                          data.validation); of training also batches/loss, batches/accuracy
//                          (within an epoch), host/process_bytes, host/free_bytes
//                          (runtime/host_memory.h)
//   memory.csv             name,bytes of each block of memory that the training holds
//   env.json, command.txt  what it ran on, and how it was started; a line more for each time that
//                          it went on
//   plan.json, plan.html   the plan of the training step, for machines and for people
//   model.txt              the model as a table, and what the step needs
//   report.html            curves, confusion matrix, result; when training ends
//   weights.safetensors    written by others, at weights_path()
//   checkpoints/           written by others (models/run/checkpoint_folder.h)
//
// A line is on its way to the disk when write() returns, so a killed run keeps what it logged. A
// full disk costs the lines of that time and not the training (models/run/record_file.h).
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
#include <vector>

#include "tessera/models/run/record_file.h"
#include "tessera/models/run/tensorboard.h"

namespace tessera {

struct Config;      // config.h
struct MemoryItem;  // runtime/memory_item.h

struct Metrics {
  double epoch = 0;             // epochs done, a fraction within one
  int64_t step = 0;             // steps done
  const char* phase = "train";  // train | validation | test
  double loss = 0;              // mean over the images since the last line of this phase, or epoch
  double accuracy = 0;          // part of them that is right, in [0, 1]
  double lr = 0;                // of the last step done
  double images_per_second = 0;
  bool whole = true;       // of all images of the epoch so far, or of the test; not in the files
  double data_wait = NAN;  // share of the time since the last line in which steps waited for data
};

// One writer for a folder. Not thread-safe.
class RunFolder {
 public:
  // Makes the folder and its parents, writes the configuration and starts the metrics anew; or,
  // when training goes on after `steps_done` steps, keeps the lines up to there and drops what
  // follows, also a line that was being written when the process was killed. TensorBoard, which
  // reads all event files of the folder, is told the same. Throws Error naming the path when that
  // cannot be done. `files`: what the metrics and the report are written with.
  // `remarks`: comments below the configuration. `due`: phases that are to be evaluated after that
  // step; their lines of it, if the process was killed behind them, are dropped too.
  explicit RunFolder(const Config& config, std::optional<int64_t> steps_done = {},
                     FileSystem& files = file_system(), const std::string& remarks = "",
                     std::vector<std::string_view> due = {});

  // Writes a file of the folder anew, whole or not at all. Throws Error when the disk refuses.
  void put(const char* name, const std::string& text) const { put(name, std::span(&text, 1)); }
  void put(const char* name, std::span<const std::string> pieces) const;
  // The same for a long text that `write` hands over in pieces; not whole when the process is
  // killed.
  using Piece = std::function<void(std::string_view)>;
  void put(const char* name, const std::function<void(const Piece&)>& write) const;
  // The same as the first for what a training can do without: where the disk refuses, that is a
  // warning and one of incomplete().
  void put_if_possible(const char* name, const std::string& text) {
    put_if_possible(name, std::span(&text, 1));
  }
  void put_if_possible(const char* name, std::span<const std::string> pieces);
  // Writes command.txt anew or, when training goes on, puts a line to it: the first stays.
  void add_command(const std::string& command, bool goes_on) const;
  // Writes memory.csv anew. Throws Error when the disk refuses.
  void write_memory(const std::vector<MemoryItem>& blocks) const;

  // Appends a line to both metrics files, without allocating. A value that is not finite is an
  // empty field in CSV and null in JSON. Where the disk refuses, a line is missing: a warning for
  // the first of a file, and one of incomplete().
  void write(const Metrics& metrics);

  const std::string& dir() const { return dir_; }
  std::string weights_path() const { return dir_ + "/weights.safetensors"; }
  // The open metrics files, for fsync().
  std::vector<int> descriptors() const;
  // What the disk refused so far, a line for each file.
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
  std::unique_ptr<EventWriter> train_events_, test_events_;
  std::unique_ptr<EventWriter> validation_events_;  // nullptr without data.validation
  std::optional<RecordFile> csv_, jsonl_;
  bool former_csv_;  // begun by a program that wrote no data_wait
  std::vector<std::string> not_written_;
};

// What a training needs of its folder, asked before it does anything; nothing is written. Throws
// RunFolderError: the folder is a file or cannot be made or written; require_room: its disk has
// less than so many bytes left.
void require_run_folder(const std::string& dir);
void require_room(const std::string& dir, int64_t bytes);
// Bytes left on the disk that the folder is or will be on.
int64_t room_for(const std::string& dir);

// Returns the text of a file of the folder; "" if it is no regular file or cannot be read.
std::string run_file(const std::string& run_dir, const char* name);
// Where trainer eval --run DIR finds things.
std::string resolved_config_path(const std::string& run_dir);
std::string weights_path(const std::string& run_dir);

}  // namespace tessera
