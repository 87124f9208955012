// The learning rate of each step, in closed form: no state, so any step can be asked for.
//
// With b = optimizer.lr, W = warm-up steps, T = total steps, S = T - W, f = final_lr, and for a
// step t >= W the part done p = min(1, (t - W) / S):
//
//   t < W       b (t + 1) / W                        (the warm-up)
//   constant    b
//   step        b gamma^floor(t / every)              counted from step 0
//   multistep   b gamma^(number of milestones <= t)   counted from step 0
//   cosine      f + (b - f) (1 + cos(pi p)) / 2
//   linear      b + (f - b) p
//   polynomial  f + (b - f) (1 - p)^power
//   exponential b gamma^((t - W) / every)
//   cosine_restarts   f + (b - f) (1 + cos(pi q)) / 2, q the part done of a cycle; the first lasts
//               period, each after it period_factor times as long
//   wsd         b until T - decay, then in a line to f
//   plateau     b times what Plateau makes of the evaluations
//   one_cycle   two half cosines, PyTorch's OneCycleLR, with the peak at e = peak_at T - 1:
//               t < e:  s + (b - s) (1 - cos(pi t / e)) / 2,           s = start_factor b
//               else    f + (b - f) (1 + cos(pi (t - e) / (T - 1 - e))) / 2
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/config/config.h"

namespace tessera {

// Immutable, thread-safe.
class Schedule {
 public:
  // Throws ConfigError when a setting is invalid (every < 1 step,
  // milestones not rising, a warm-up for one_cycle).
  Schedule(const ScheduleConfig& config, double base_lr, int64_t steps_per_epoch,
           int64_t total_steps);

  // step counts from 0; from total_steps on the last formula goes on. Allocates nothing.
  double lr(int64_t step) const;

 private:
  double decayed(int64_t step) const;
  double restarted(int64_t step) const;
  double one_cycle(int64_t step) const;

  ScheduleKind kind_;
  double base_, final_, gamma_, start_, peak_at_, power_;
  int64_t warmup_, every_ = 1, total_, period_, decay_;
  int period_factor_;
  std::vector<int64_t> milestones_;
};

// Reduces the learning rate when the loss of the evaluations has stopped falling, as PyTorch's
// ReduceLROnPlateau does (mode min, relative threshold): after `patience` evaluations without a
// better one the factor is multiplied by gamma.
struct Plateau {
  double factor = 1;  // of the learning rate
  double best = 0;    // loss; 0 before the first evaluation
  int64_t bad = 0, cooldown = 0;
  bool operator==(const Plateau&) const = default;
};
// After an evaluation. final_lr is the least that the factor makes of base_lr.
void look_at_plateau(const ScheduleConfig& config, double base_lr, double loss, Plateau& state);

// Returns a line for each setting that a training on so many images ends before: a warm-up that is
// not over, a milestone, the first factor of step.
std::vector<std::string> never_reached(const Config& config, int64_t images);

// That of a training on so many images. Throws ConfigError as the constructor does.
Schedule check_epochs(const Config& config, int64_t images);

}  // namespace tessera
