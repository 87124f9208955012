#include "tessera/models/config_checks.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config_data.h"
#include "tessera/models/layered.h"
#include "tessera/models/zoo.h"
#include "tessera/runtime/device.h"

namespace tessera {

namespace {

class Checks {
 public:
  Checks(const Config& config, const GivenKeys& given, const std::set<std::string>& wrong,
         const Place& otherwise, Diagnostics& errors)
      : config_(config), given_(given), wrong_(wrong), otherwise_(otherwise), errors_(errors) {}

  void run() {
    if (!wrong_.count("")) check_device();
    if (!wrong_.count("model")) check_model();
    if (!wrong_.count("optimizer")) check_optimizer();
    if (!wrong_.count("schedule")) check_schedule();
    if (!wrong_.count("data")) {
      check_normalization();
      check_data();
    }
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

  // What is given for the model must be an option of that model.
  void check_model() {
    const bool is_layered = given_.count("model.layers") != 0;
    const std::vector<std::string>& options =
        is_layered ? kLayeredOptions : model_options(config_.model.name);
    for (const auto& [path, place] : given_) {
      const std::string option = path.substr(path.find('.') + 1);
      if (!path.starts_with("model.") || (option == "name" && !is_layered) ||
          std::find(options.begin(), options.end(), option) != options.end())
        continue;
      errors_.add(place, is_layered
                             ? path + ": stands beside model.layers; give one of them"
                             : fmt::format("{}: {} has no such option (its options: {})", path,
                                           config_.model.name, fmt::join(options, ", ")));
    }
    if (is_layered) check_layers();
  }

  // The shapes, where they are known without opening data.
  void check_layers() {
    if (config_.model.layers.empty())
      return add({"model.layers"}, "model.layers: needs at least one layer");
    if (config_.data.name == "hdf5" || wrong_.count("data")) return;
    try {
      const ImageShape image = output_shape(make_augment(config_.data), image_shape(config_.data));
      Store scratch;
      make_layered(config_.model.layers, image, config_.model.classes, scratch);
    } catch (const LayerError& error) {
      errors_.add(error.place(), error.text());
    } catch (const ConfigError&) {  // of the data, which check_data() reports
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

  void check_data() {
    if (config_.data.name == "image_folder" && config_.data.image_size == 0)
      add({"data.image_size", "data.name"},
          "data.image_size: image_folder needs it: pixels a side that every picture is brought to");
    try {
      const Augment augment = make_augment(config_.data);
      if (config_.data.name == "hdf5") return;
      const ImageShape plain = image_shape(config_.data), made = output_shape(augment, plain);
      if (made != plain && plain.bytes() > 0)
        add({"data.augment"},
            fmt::format(
                "data.augment: makes training images {}x{}, but test images are {}x{}; leave "
                "out the size of resize_crop, or give that of the data",
                made.height, made.width, plain.height, plain.width));
    } catch (const ConfigError& error) {
      add({"data.augment"}, std::string("data.augment: ") + error.what());
    }
  }

  inline static const std::vector<std::string> kLayeredOptions{"classes", "layers"};

  const Config& config_;
  const GivenKeys& given_;
  const std::set<std::string>& wrong_;
  const Place& otherwise_;
  Diagnostics& errors_;
};

}  // namespace

void check_config(const Config& config, const GivenKeys& given, const std::set<std::string>& wrong,
                  const Place& otherwise, Diagnostics& errors) {
  Checks(config, given, wrong, otherwise, errors).run();
}

}  // namespace tessera
