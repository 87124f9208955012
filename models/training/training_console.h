// What a training says to a person: before its first step, while it runs, and of its memory at the
// end.
#pragma once

#include <chrono>
#include <cstddef>

#include "tessera/models/training/progress.h"

namespace tessera {

struct Evaluation;     // evaluator.h
struct Tally;          // evaluator.h
struct TrainingSetup;  // training_setup.h

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
  void show_progress(const Tally& since_log, double seconds);
  void clear_progress() { progress_.clear(); }
  // The training metrics of the state, where no bar shows how training goes. `wait`: the share of
  // the time that steps waited for data, or NAN.
  void say_steps(double seconds, double wait);
  // The same with those of an evaluation.
  // `phase`: of which images, "validation" or "test".
  void say_epoch(const char* phase, const Evaluation& tested, double seconds, double wait);
  // What was known of memory before, and what the system says of it.
  void say_memory() const;

 private:
  std::string line(const std::string& evaluated, double seconds, double wait) const;
  void say_swapped();  // once, from the first time that it is so

  const TrainingSetup& setup_;
  const size_t held_bytes_;
  Progress progress_;
  std::chrono::steady_clock::time_point last_line_;
  int lines_said_ = 0;
  bool swapping_said_ = false;
};

}  // namespace tessera
