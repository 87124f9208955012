#include "tessera/models/config/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// Interpolates from `from` at part 0 to `to` at part 1 along half a cosine.
double half_cosine(double from, double to, double part) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * part));
}

int64_t batches_of_epoch(const Config& config, int64_t images) {
  return (images + config.data.batch - 1) / config.data.batch;
}

}  // namespace

Schedule::Schedule(const ScheduleConfig& config, double base_lr, int64_t steps_per_epoch,
                   int64_t total_steps)
    : config_(config),
      base_(base_lr),
      warmup_(config.warmup.steps(steps_per_epoch)),
      total_(total_steps),
      period_(config.period.steps(steps_per_epoch)),
      decay_(config.decay.steps(steps_per_epoch)) {
  if (steps_per_epoch < 1 || total_steps < 1) {
    throw ConfigError(fmt::format(
        "schedule: an epoch and the training must each have at least one step, but have {} and {}",
        steps_per_epoch, total_steps));
  }
  if (config_.name == ScheduleKind::kOneCycle && warmup_ > 0) {
    throw ConfigError(
        "schedule.warmup: one_cycle has its own warm-up; set start_factor and peak_at instead");
  }
  // A training cut short (train.steps=50) may end within its warm-up.
  if (config_.name == ScheduleKind::kStep || config_.name == ScheduleKind::kExponential) {
    every_ = config.every.steps(steps_per_epoch);
    if (every_ < 1) {
      throw ConfigError(
          fmt::format("schedule.every: must be at least one step, but is {}", config.every.text()));
    }
  }
  for (const Duration& milestone : config.milestones) {
    milestones_.push_back(milestone.steps(steps_per_epoch));
    if (milestones_.size() > 1 && milestones_.back() <= milestones_[milestones_.size() - 2]) {
      throw ConfigError(
          fmt::format("schedule.milestones: must increase, but {} is step {} and follows "
                      "step {}",
                      milestone.text(), milestones_.back(), milestones_[milestones_.size() - 2]));
    }
  }
}

Schedule check_epochs(const Config& config, int64_t images) {
  const int64_t batches = batches_of_epoch(config, images);
  return {config.schedule, config.optimizer.lr, batches, config.train.total_steps(batches)};
}

std::vector<std::string> never_reached(const Config& config, int64_t images) {
  const ScheduleConfig& schedule = config.schedule;
  const int64_t batches = batches_of_epoch(config, images);
  const int64_t total = config.train.total_steps(batches);
  std::vector<std::string> lines;
  if (const int64_t warmup = schedule.warmup.steps(batches); warmup > total)
    lines.push_back(fmt::format(
        "schedule.warmup: is {} steps, but the training has {}: the learning rate never reaches "
        "optimizer.lr; shorten the warm-up or train longer",
        warmup, total));
  const auto look_at = [&](const char* key, const Duration& when) {
    if (const int64_t step = when.steps(batches); step >= total)
      lines.push_back(
          fmt::format("{}: {} is step {}, but the training ends at step {}: gamma is not applied "
                      "there; set a shorter duration or train longer",
                      key, when.text(), step, total));
  };
  if (schedule.name == ScheduleKind::kStep) look_at("schedule.every", schedule.every);
  if (schedule.name == ScheduleKind::kMultistep)
    for (const Duration& milestone : schedule.milestones) look_at("schedule.milestones", milestone);
  return lines;
}

double Schedule::lr(int64_t step) const {
  if (step < warmup_) return base_ * static_cast<double>(step + 1) / static_cast<double>(warmup_);
  return config_.name == ScheduleKind::kOneCycle ? one_cycle(step) : decayed(step);
}

double Schedule::decayed(int64_t step) const {
  auto span = static_cast<double>(std::max<int64_t>(1, total_ - warmup_));
  double part = std::min(1.0, static_cast<double>(step - warmup_) / span);
  switch (config_.name) {
    case ScheduleKind::kStep:
      return base_ * std::pow(config_.gamma, static_cast<double>(step / every_));
    case ScheduleKind::kMultistep: {
      auto passed = std::upper_bound(milestones_.begin(), milestones_.end(), step);
      return base_ * std::pow(config_.gamma, static_cast<double>(passed - milestones_.begin()));
    }
    case ScheduleKind::kCosine:
      return half_cosine(base_, config_.final_lr, part);
    case ScheduleKind::kLinear:
      return base_ + (config_.final_lr - base_) * part;
    case ScheduleKind::kPolynomial:
      return config_.final_lr + (base_ - config_.final_lr) * std::pow(1 - part, config_.power);
    case ScheduleKind::kExponential:
      return base_ * std::pow(config_.gamma,
                              static_cast<double>(step - warmup_) / static_cast<double>(every_));
    case ScheduleKind::kCosineRestarts:
      return restarted(step - warmup_);
    case ScheduleKind::kWsd: {
      const double left = static_cast<double>(total_ - step) / static_cast<double>(decay_);
      return config_.final_lr + (base_ - config_.final_lr) * std::clamp(left, 0.0, 1.0);
    }
    case ScheduleKind::kConstant:
    case ScheduleKind::kOneCycle:
    case ScheduleKind::kPlateau:
      break;
  }
  return base_;
}

// `step` counts from the end of the warm-up.
double Schedule::restarted(int64_t step) const {
  int64_t length = std::max<int64_t>(1, period_);
  while (step >= length) {
    step -= config_.period_factor == 1 ? step / length * length : length;
    if (config_.period_factor > 1 && length <= total_) length *= config_.period_factor;
  }
  return half_cosine(base_, config_.final_lr,
                     static_cast<double>(step) / static_cast<double>(length));
}

void look_at_plateau(const ScheduleConfig& config, double base_lr, double loss, Plateau& state) {
  const bool better =
      std::isfinite(loss) && (state.best == 0 || loss < state.best * (1 - config.threshold));
  if (better) state.best = loss;
  state.bad = better ? 0 : state.bad + 1;
  if (state.cooldown > 0) {
    --state.cooldown;
    state.bad = 0;
  }
  if (state.bad <= config.patience) return;
  state.cooldown = config.cooldown;
  state.bad = 0;
  if (base_lr > 0)
    state.factor =
        std::max(state.factor * config.gamma, std::min(state.factor, config.final_lr / base_lr));
}

double Schedule::one_cycle(int64_t step) const {
  const auto now = static_cast<double>(step), total = static_cast<double>(total_);
  const double peak = config_.peak_at * total - 1;
  if (now < peak) return half_cosine(config_.start_factor * base_, base_, now / peak);
  return half_cosine(base_, config_.final_lr, std::min(1.0, (now - peak) / (total - 1 - peak)));
}

}  // namespace tessera
