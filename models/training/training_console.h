// TrainingConsole: the lines that a training prints before its first step, while it runs, and about
// its memory at the end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tessera/models/config/config.h"
#include "tessera/models/data/loader.h"
#include "tessera/runtime/text/report.h"

namespace tessera {

struct Evaluation;      // evaluator.h
struct RunningMetrics;  // evaluator.h
struct TrainingSetup;   // training_setup.h
struct TrainResult;     // training.h

// The numbers on the progress line: redrawn in place on a terminal, absent elsewhere.
//
//   epoch  3/15 [==>     ] 2810/s  loss 0.521 acc 81.2% eta 1:02  wait 1%  85MiB
struct ProgressState {
  double epoch = 0, epochs = 0;    // done, and in all
  int64_t batch = 0, batches = 0;  // in this epoch; batch 0 shows the previous epoch as complete
  int64_t steps_left = 0;          // in the training
  double loss = 0, accuracy = 0;   // so far in this epoch
  double images_per_second = 0;
  double wait_share = 0;    // fraction of the time spent waiting for data, in [0, 1]
  size_t memory_bytes = 0;  // held by the training
};

// Returns the line without control characters, at most `columns` wide. In 79 columns it has the
// epoch, a bar of at least 8 cells, speed, loss, accuracy, time left, waiting and memory; if there
// is space also the batches, and then longer words. In less, memory is dropped first, then waiting,
// speed, the bar, time left, accuracy, loss; the epoch stays. (With a thousand epochs memory is
// dropped at 80.) Growing numbers do not change which fields are shown.
std::string progress_text(const ProgressState& state, double seconds_left, int columns);

// Draws the progress line. Not thread-safe.
class Progress {
 public:
  // Draws only if `out` is a capable terminal (TERM is not "dumb") or if `always` is set; nullptr
  // never draws. Registered as the status line (runtime/text/terminal.h), so log lines appear
  // above it.
  explicit Progress(std::FILE* out = stderr, bool always = false);
  ~Progress() { clear(); }

  bool active() const { return active_; }
  // Draws at most ten times a second; most calls only read the clock.
  void update(const ProgressState& state);
  // Erases the line.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* out_;
  bool active_, drawn_ = false;
  Clock::time_point last_ = {}, start_ = {};
  int64_t first_left_ = 0;  // steps_left when the clock for "time left" was started
};

// Prints the lines of a training with TrainingSetup::print and draws the progress bar on a
// terminal. Not thread-safe.
class TrainingConsole {
 public:
  // The setup must outlive the console; every call reads its current state.
  explicit TrainingConsole(const TrainingSetup& setup);

  // Prints the data, the model, the memory in use and how far the batch could grow; then the step
  // from which the training resumes, if it does.
  void introduce();
  // `since_log` has the sums since the last line of metrics; `seconds` are those since the first
  // step. Without a terminal, draws and allocates nothing.
  void show_progress(const RunningMetrics& since_log, double seconds);
  void clear_progress() { progress_.clear(); }
  // Prints the training metrics of the state if no progress bar is shown. `wait` is the fraction of
  // the time that steps waited for data, or NAN.
  void print_steps(double seconds, double wait);
  // Prints the training metrics and those of an evaluation. `phase` names its images: "validation"
  // or "test".
  void print_epoch(const char* phase, const Evaluation& tested, double seconds, double wait);
  // Prints the memory that the training holds, and that of the process and the computer.
  void print_memory() const;

 private:
  std::string line(const std::string& evaluated, double seconds, double wait) const;
  void print_swapped();  // once, at the first call that finds swapped memory

  const TrainingSetup& setup_;
  const size_t held_bytes_;
  Progress progress_;
  std::chrono::steady_clock::time_point last_line_;
  int lines_said_ = 0;
  bool swapping_said_ = false;
};

// Detects a training that waits for its data, and the slowest stage of loading. Not thread-safe.
//
//   WaitMonitor waits(loader);
//   each step: loader.next() ... step.run(); if (waits.step()) log(..., waits.warning());
class WaitMonitor {
 public:
  // The loader must outlive it.
  explicit WaitMonitor(const Loader& loader);

  // Call it after each step; allocates nothing. Returns true for the first window of steps that
  // waited too much, and never again: one warning is enough.
  bool step();
  // Returns "data: 43 % of the last 100 steps was spent waiting ...", with the slowest stage and a
  // remedy.
  std::string warning() const;

 private:
  struct Mark {
    double seconds = 0;  // since some start
    LoaderTimes times;
  };
  static constexpr int64_t kWindow = 100;  // steps
  Mark now() const;
  // Returns the fraction, in [0, 1], of the last window that next() waited.
  double share() const;

  const Loader& loader_;
  Mark begin_, end_;  // the last window
  int64_t steps_ = 0;
  bool warned_ = false;
};

// Returns the results of the last step and the best of the training, after train().
Report result_report(const Config& config, const TrainResult& result);

}  // namespace tessera
