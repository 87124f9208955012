// Schedule: the learning rate of each step in closed form, without state.
//
// Let b = optimizer.lr, W = warm-up steps, T = total steps, S = T - W, f = final_lr, and for a
// step t >= W the fraction done p = min(1, (t - W) / S):
//
//   t < W       b (t + 1) / W                        (the warm-up)
//   constant    b
//   step        b gamma^floor(t / every)              counted from step 0
//   multistep   b gamma^(number of milestones <= t)   counted from step 0
//   cosine      f + (b - f) (1 + cos(pi p)) / 2
//   linear      b + (f - b) p
//   polynomial  f + (b - f) (1 - p)^power
//   exponential b gamma^((t - W) / every)
//   cosine_restarts   f + (b - f) (1 + cos(pi q)) / 2, q the fraction done of a cycle; the first
//               cycle lasts period, each later cycle period_factor times as long
//   wsd         b until T - decay, then linear to f
//   plateau     b times Plateau::factor
//   one_cycle   two half cosines, PyTorch's OneCycleLR, with the peak at e = peak_at T - 1:
//               t < e:  s + (b - s) (1 - cos(pi t / e)) / 2,           s = start_factor b
//               else    f + (b - f) (1 + cos(pi (t - e) / (T - 1 - e))) / 2
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"

namespace tessera {

// Immutable after construction.
class Schedule {
 public:
  // Throws ConfigError if a setting is invalid (every < 1 step, milestones not increasing, a
  // warm-up for one_cycle).
  Schedule(const ScheduleConfig& config, double base_lr, int64_t steps_per_epoch,
           int64_t total_steps);

  // Returns the learning rate of `step`, counted from 0; the last formula continues after
  // total_steps. Allocates nothing.
  double lr(int64_t step) const;

 private:
  double decayed(int64_t step) const;
  double restarted(int64_t step) const;
  double one_cycle(int64_t step) const;

  ScheduleConfig config_;
  double base_;
  int64_t warmup_, every_ = 1, total_, period_, decay_;  // steps
  std::vector<int64_t> milestones_;                      // steps
};

// The state of PyTorch's ReduceLROnPlateau (mode min, relative threshold): after more than
// `patience` evaluations without a better loss, the factor is multiplied by gamma.
struct Plateau {
  double factor = 1;  // multiplies the learning rate
  double best = 0;    // loss; 0 before the first evaluation
  int64_t bad = 0, cooldown = 0;
  bool operator==(const Plateau&) const = default;
};
// Updates the state after an evaluation. The factor reduces base_lr to no less than final_lr.
void look_at_plateau(const ScheduleConfig& config, double base_lr, double loss, Plateau& state);

// Returns a line for each setting that a training on `images` images does not reach: the end of the
// warm-up, a milestone, the first factor of step.
std::vector<std::string> never_reached(const Config& config, int64_t images);

// Returns the schedule of a training on `images` images. Throws ConfigError like the constructor.
Schedule check_epochs(const Config& config, int64_t images);

}  // namespace tessera
