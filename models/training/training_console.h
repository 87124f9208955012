// What a training says to a person: before its first step, while it runs, and of its memory at the
// end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "tessera/models/data/loader.h"

namespace tessera {

struct Evaluation;      // evaluator.h
struct RunningMetrics;  // evaluator.h
struct TrainingSetup;   // training_setup.h

// The line that a person watches while a training runs: redrawn in place on a terminal, not there
// at all elsewhere.
//
//   epoch  3/15 [==>     ] 2810/s  loss 0.521 acc 81.2% eta 1:02  wait 1%  85MiB
struct ProgressState {
  double epoch = 0, epochs = 0;    // done, of how many
  int64_t batch = 0, batches = 0;  // of this epoch; 0 done: that before is shown, whole
  int64_t steps_left = 0;          // of the training
  double loss = 0, accuracy = 0;   // so far in this epoch
  double images_per_second = 0;
  double wait_share = 0;    // of the time, spent waiting for data; in [0, 1]
  size_t memory_bytes = 0;  // held by the training
};

// The line without control characters, at most `columns` wide. In 79 columns there are the epoch, a
// bar of 8 cells or more, speed, loss, accuracy, time left, waiting and memory; where there is room
// also the batches, and then longer words. In less, memory goes first, then waiting, speed, the
// bar, time left, accuracy, loss; the epoch stays. (With a thousand epochs memory goes in 80.) What
// is shown does not change as numbers grow.
std::string progress_text(const ProgressState& state, double seconds_left, int columns);

// Not thread-safe.
class Progress {
 public:
  // Draws only where `out` is a terminal that can (TERM is not "dumb"), unless `always`; nullptr:
  // never. As the status line (runtime/text/status_line.h), so lines that are logged stand above
  // it.
  explicit Progress(std::FILE* out = stderr, bool always = false);
  ~Progress() { clear(); }

  bool active() const { return active_; }
  // Draws at most ten times a second; most calls only look at the clock.
  void update(const ProgressState& state);
  // Takes the line away.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* out_;
  bool active_, drawn_ = false;
  Clock::time_point last_ = {}, start_ = {};
  int64_t first_left_ = 0;  // steps_left when the clock for "time left" was started
};

// Lines go to TrainingSetup::print, the progress bar to a terminal. Not thread-safe.
class TrainingConsole {
 public:
  // The setup must outlive it; its state is that of the moment in every call.
  explicit TrainingConsole(const TrainingSetup& setup);

  // The data, the model, the memory held and how far the batch could grow; then from where the
  // training goes on, if it does.
  void introduce();
  // `since_log`: the sums since the last line of metrics; `seconds` since the first step. Draws
  // nothing where there is no terminal, and allocates nothing then.
  void show_progress(const RunningMetrics& since_log, double seconds);
  void clear_progress() { progress_.clear(); }
  // The training metrics of the state, where no bar shows how training goes. `wait`: the share of
  // the time that steps waited for data, or NAN.
  void print_steps(double seconds, double wait);
  // The same with those of an evaluation.
  // `phase`: of which images, "validation" or "test".
  void print_epoch(const char* phase, const Evaluation& tested, double seconds, double wait);
  // What was known of memory before, and what the system says of it.
  void print_memory() const;

 private:
  std::string line(const std::string& evaluated, double seconds, double wait) const;
  void print_swapped();  // once, from the first time that it is so

  const TrainingSetup& setup_;
  const size_t held_bytes_;
  Progress progress_;
  std::chrono::steady_clock::time_point last_line_;
  int lines_said_ = 0;
  bool swapping_said_ = false;
};

// Whether training waits for its data, and for which stage of loading. Not thread-safe.
//
//   WaitMonitor waits(loader);
//   each step: loader.next() ... step.run(); if (waits.step()) log(..., waits.warning());
class WaitMonitor {
 public:
  // The loader must outlive it.
  explicit WaitMonitor(const Loader& loader);

  // To be called after each step; allocates nothing. True when a window of steps has ended in which
  // too much was waited, the first time only: one warning is enough.
  bool step();
  // "data: 43 % of the last 100 steps was spent waiting ...": names the slowest stage and what may
  // help.
  std::string warning() const;

 private:
  struct Mark {
    double seconds = 0;  // since some start
    LoaderTimes times;
  };
  Mark now() const;
  // The part of the last whole window that next() waited, or of the steps so far; in [0, 1].
  double share() const;

  const Loader& loader_;
  Mark begin_, end_;  // of the window that share() speaks of
  Mark running_;      // where the window that is not over yet began
  int64_t steps_ = 0, shown_ = 0;
  bool whole_ = false, warned_ = false;
};

}  // namespace tessera
