#include "tessera/models/config_checks.h"

#include <fmt/format.h>

#include "tessera/runtime/device.h"

namespace tessera {

namespace {

class Checks {
 public:
  Checks(const Config& config, const GivenKeys& given, const Place& otherwise, Diagnostics& errors)
      : config_(config), given_(given), otherwise_(otherwise), errors_(errors) {}

  void run() {
    check_device();
    check_optimizer();
    check_schedule();
    check_normalization();
  }

 private:
  // At the first of the keys that was given.
  void add(std::initializer_list<const char*> keys, const std::string& text) {
    for (const char* key : keys)
      if (const auto found = given_.find(key); found != given_.end())
        return errors_.add(found->second, text);
    errors_.add(otherwise_, text);
  }

  void check_device() {
    if (config_.device == "auto") return;
    try {
      parse_device(config_.device);
    } catch (const Error& error) {
      add({"device"}, error.what());
    }
  }

  void check_optimizer() {
    const OptimizerConfig& optimizer = config_.optimizer;
    if (optimizer.name == "sgd" && optimizer.nesterov && optimizer.momentum == 0)
      add({"optimizer.nesterov"}, "optimizer.nesterov: needs a momentum above 0");
  }

  void check_schedule() {
    const ScheduleConfig& schedule = config_.schedule;
    if (schedule.name == "one_cycle" && schedule.warmup.count > 0)
      add({"schedule.warmup"},
          "schedule.warmup: one_cycle rises by itself; set start_factor and peak_at");
    if (schedule.name == "multistep" && schedule.milestones.empty())
      add({"schedule.milestones", "schedule.name"},
          "schedule.milestones: multistep needs some, such as [32000st, 48000st]");
    for (size_t i = 1; i < schedule.milestones.size(); ++i) {
      const Duration &before = schedule.milestones[i - 1], &now = schedule.milestones[i];
      if (before.unit == now.unit && before.count >= now.count)
        add({"schedule.milestones"},
            fmt::format("schedule.milestones: must rise, but {} follows {}", now.text(),
                        before.text()));
    }
  }

  void check_normalization() {
    const size_t mean = config_.data.mean.size(), std = config_.data.std.size();
    if (mean != std)
      add({"data.mean", "data.std"},
          fmt::format("data.mean and data.std: must have one entry per channel each, but have {} "
                      "and {}",
                      mean, std));
  }

  const Config& config_;
  const GivenKeys& given_;
  const Place& otherwise_;
  Diagnostics& errors_;
};

}  // namespace

void check_config(const Config& config, const GivenKeys& given, const Place& otherwise,
                  Diagnostics& errors) {
  Checks(config, given, otherwise, errors).run();
}

}  // namespace tessera
