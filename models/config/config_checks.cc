#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/config/config_keys.h"
#include "tessera/models/config/network.h"
#include "tessera/models/data/sets/hdf5_set.h"
#include "tessera/models/data/sets/published.h"
#include "tessera/models/data/sets/subset.h"
#include "tessera/models/data/sets/synthetic.h"
#include "tessera/runtime/cuda/device_properties.h"
#include "tessera/runtime/device.h"
#include "tessera/runtime/text/spelling.h"

namespace tessera {

namespace {

class Checks {
 public:
  Checks(const Config& config, const GivenKeys& given, const std::set<std::string>& wrong,
         const SourceRange& otherwise, Diagnostics& errors)
      : config_(config), given_(given), wrong_(wrong), otherwise_(otherwise), errors_(errors) {}

  void run() {
    if (!wrong_.count("")) check_device();
    if (!wrong_.count("data")) {
      check_data();
      check_normalization();
      check_labels();
      check_counts();
    }
    if (!wrong_.count("model")) check_model();
    if (!wrong_.count("optimizer")) check_optimizer();
    if (!wrong_.count("schedule")) check_schedule();
    if (!wrong_.count("loss") && !wrong_.count("model")) check_loss();
    if (!wrong_.count("train") && !wrong_.count("data")) check_training();
    if (!wrong_.count("") && !wrong_.count("memory")) check_reserve(), check_budget();
    if (config_.run.dir.empty())
      add({"run.dir"}, "run.dir: must be the path of a folder, but is empty");
    check_effects();
  }

 private:
  // Reports an error at the first given key of `keys`.
  template <class... Args>
  void add(std::initializer_list<const char*> keys, fmt::format_string<Args...> text,
           Args&&... args) {
    errors_.add(place_of(first_given({keys.begin(), keys.size()})),
                fmt::format(text, std::forward<Args>(args)...));
  }

  const SourceRange& place_of(const std::string& key) const {
    return key.empty() ? otherwise_ : given_.at(key);
  }

  // Returns "" if none of the keys is given.
  std::string first_given(std::span<const char* const> keys) const {
    for (const char* key : keys)
      if (given_.count(key) != 0) return key;
    return "";
  }

  void check_device() {
    if (config_.device == "auto") return;
    try {
      if (described_gpu(config_.device) != nullptr) return;
      const Device device = parse_device(config_.device);
      const size_t parts = wrong_.count("devices") ? 0 : config_.devices.cpu.size();
      if (device.is_cpu() && parts > 0 && static_cast<size_t>(device.index) >= parts)
        add({"device"},
            "device: must be one of the logical devices of devices.cpu, cpu:0 to cpu:{}, but is "
            "'{}'",
            parts - 1, config_.device);
    } catch (const Error& error) {
      add({"device"}, "{}", error.what());
    }
  }

  // Checks that each key given for the model is an option of the model.
  void check_model() {
    const size_t before = errors_.size();
    const bool is_layered = given_.count("model.layers") != 0;
    const std::vector<std::string> options = options_of_model(config_.model.name, is_layered);
    Config copy = config_;
    for (const ConfigKey& key : config_keys(copy)) {
      const auto given = given_.find(key.path);
      if (given == given_.end() || key.group() != "model") continue;
      const bool is_name = key.leaf() == "name";
      if ((is_name ? !is_layered : is_default(key)) || std::ranges::count(options, key.leaf()) > 0)
        continue;
      errors_.add(given->second,
                  is_layered
                      ? key.path + ": cannot be set together with model.layers; remove one of them"
                      : fmt::format("{}: is not an option of {} (its options: {})", key.path,
                                    config_.model.name, fmt::join(options, ", ")));
    }
    if (is_layered && config_.model.layers.empty())
      return add({"model.layers"}, "model.layers: needs at least one layer");
    if (errors_.size() == before) check_network();
  }

  // Returns the classes of the network; 0: those of data that must be opened to count them.
  int64_t known_classes() const {
    const bool opened = config_.data.name == "hdf5" || config_.data.name == "image_folder";
    if (config_.model.classes > 0 || opened || wrong_.count("data")) return config_.model.classes;
    return class_count(data_source(config_));
  }

  // Builds the network as training will. Checks its shapes only if the image size is known without
  // opening the data.
  void check_network() {
    Config known = config_;  // without the groups that have errors
    known.model.classes = known_classes();
    if (known.model.classes == 0 && !known.model.layers.empty()) return;
    if (known.model.classes == 0) known.model.classes = 1;  // at least
    if (wrong_.count("train")) known.train = {};
    if (wrong_.count("optimizer")) known.optimizer = {};
    const std::optional<NetworkProblem> problem = find_network_problem(known, image_);
    if (!problem) return;
    if (problem->range) return errors_.add(*problem->range, problem->text);
    const std::string key = first_given(problem->keys);
    errors_.add(place_of(key),
                fmt::format("{}: {}", key.empty() ? "model.name" : key, problem->text));
  }

  void check_loss() {
    if (config_.loss.name != LossKind::kCrossEntropy) return;
    const std::vector<double>& weights = config_.loss.class_weights;
    const auto classes = static_cast<size_t>(known_classes());
    if (!weights.empty() && classes > 0 && weights.size() != classes)
      add({"loss.class_weights"},
          "loss.class_weights: must have one entry for each of the {} classes of the model, but "
          "has {}",
          classes, weights.size());
    else if (!weights.empty() &&
             std::count(weights.begin(), weights.end(), 0.0) == std::ssize(weights))
      add({"loss.class_weights"}, "loss.class_weights: at least one weight must be above 0");
  }

  void check_training() {
    const TrainConfig& train = config_.train;
    if (train.accumulate > config_.data.batch)
      add({"train.accumulate", "data.batch"},
          "train.accumulate: a batch of {} images cannot be split into {} parts",
          config_.data.batch, train.accumulate);
    if (train.patience > 0 && config_.checkpoint.best == BestBy::kNone)
      add({"train.patience"},
          "train.patience: counts evaluations without a new best, but checkpoint.best is none; set "
          "checkpoint.best to accuracy or loss");
  }

  void check_optimizer() {
    const OptimizerConfig& optimizer = config_.optimizer;
    const bool still = (optimizer.name == "sgd" || optimizer.name == "lars") &&
                       optimizer.nesterov && optimizer.momentum == 0;
    if (still) add({"optimizer.nesterov"}, "optimizer.nesterov: needs a momentum above 0");
  }

  void check_schedule() {
    const ScheduleConfig& schedule = config_.schedule;
    if (schedule.name == ScheduleKind::kOneCycle && schedule.warmup.count > 0)
      add({"schedule.warmup"},
          "schedule.warmup: one_cycle has its own warm-up; set start_factor and peak_at instead");
    if (schedule.name == ScheduleKind::kMultistep && schedule.milestones.empty())
      add({"schedule.milestones", "schedule.name"},
          "schedule.milestones: multistep needs at least one, such as [32000st, 48000st]");
    for (size_t i = 1; i < schedule.milestones.size(); ++i) {
      const Duration &before = schedule.milestones[i - 1], &now = schedule.milestones[i];
      if (before.unit == now.unit && before.count >= now.count)
        add({"schedule.milestones"}, "schedule.milestones: must increase, but {} follows {}",
            now.text(), before.text());
    }
  }

  void check_normalization() {
    const size_t mean = config_.data.mean.size(), std = config_.data.std.size();
    if (mean != std)
      add({"data.mean", "data.std"},
          "data.mean and data.std: must each have one entry per channel, but have {} and {}", mean,
          std);
    else if (channels_ > 0 && mean > 0 && mean != channels_)
      add({"data.mean"},
          "data.mean and data.std: must each have one entry per channel, but have {} and the "
          "images of {} have {}",
          mean, config_.data.name, channels_);
  }

  void check_labels() {
    const DataConfig& data = config_.data;
    const PublishedSet* set = find_published(data.name);
    const bool is_fine = data.labels == "fine" || data.labels == "coarse";
    if (set != nullptr && set->labels.size() > 1 && !is_fine)
      errors_.add(place_of(first_given(std::array{"data.labels", "data.name"})),
                  fmt::format("data.labels: '{}' is not one of fine, coarse", data.labels),
                  nearest_spelling(data.labels, {"fine", "coarse"}));
    if (data.name != "hdf5" || data.images.empty()) return;
    if (const auto problem = find_problem(data_source(config_).hdf5))
      add({problem->key, "data.images"}, "{}", problem->text);
  }

  // Checks the counts that follow from the name of the data set; opens no file.
  void check_counts() {
    const ValidationSource& validation = config_.data.validation;
    if (config_.data.name == "image_folder") return;
    if (!validation.folder.empty())
      add({"data.validation"},
          "data.validation: '{}' is read as a folder, which only image_folder can have; for {} set "
          "a part such as 10%, or a number of images",
          validation.folder, config_.data.name);
    if (config_.data.name == "hdf5") return;
    DataSource source = data_source(config_);
    source.train_count = source.test_count = 0;
    source.validation = {};
    const DataNeed all = data_need(source);
    if (config_.model.classes > 0 && config_.model.classes < all.classes && !wrong_.count("model"))
      add({"model.classes", "data.name", "model.name"},
          "model.classes: {} has {} classes, but the model has only {}", config_.data.name,
          all.classes, config_.model.classes);
    const int64_t train = config_.data.train_count > 0 ? config_.data.train_count : all.train_count;
    if (validation.any() && validation.folder.empty())
      if (const std::string problem = held_out_problem(validation, train); !problem.empty())
        add({"data.validation"}, "data.validation: {}", problem);
    if (config_.data.name == "synthetic") return;  // makes any number of images
    const auto check = [&](const char* key, int64_t asked, int64_t there) {
      if (there > 0 && asked > there)
        add({key}, "{}: is {}, but {} has only {} images; 0 means all", key, asked,
            config_.data.name, there);
    };
    check("data.train_count", config_.data.train_count, all.train_count);
    check("data.test_count", config_.data.test_count, all.test_count);
  }

  void check_reserve() {
    const MemoryConfig& memory = config_.memory;
    if (!memory.reserve || config_.mode != Mode::kEager) return;
    if (memory.allocator == "direct")
      add({"memory.reserve"},
          "memory.reserve: the direct allocator reserves no memory; remove memory.reserve, or set "
          "memory.allocator: caching");
    if (memory.limit && memory.reserve->bytes > memory.limit->bytes)
      add({"memory.reserve"}, "memory.reserve: {} is more than memory.limit, which is {}",
          memory.reserve->text(), memory.limit->text());
  }

  void check_budget() {
    const MemoryConfig& memory = config_.memory;
    if (!memory.budget || memory.budget->is_automatic()) return;
    const bool on_gpu = !names_cpu(config_) && config_.device != "auto";
    const auto& limit = on_gpu ? memory.gpu_limit : memory.limit;
    if (limit && memory.budget->bytes > limit->bytes)
      add({"memory.budget"}, "memory.budget: {} is more than memory.{}, which is {}",
          memory.budget->text(), on_gpu ? "gpu_limit" : "limit", limit->text());
  }

  bool is_put_aside(const ConfigKey& key, const SourceRange& range) const {
    const std::string choice = choice_that_puts_aside(key);
    if (choice.empty()) return false;
    if (wrong_.count(group_of(choice)) != 0) return true;  // the choice is unknown
    const auto chosen = given_.find(choice);
    return chosen != given_.end() && chosen->second.is_override() && !range.is_override();
  }

  void check_effects() {
    Config copy = config_;
    for (const ConfigKey& key : config_keys(copy)) {
      const auto given = given_.find(key.path);
      if (given == given_.end() || wrong_.count(key.group())) continue;
      if (is_put_aside(key, given->second)) continue;
      if (const std::string why = why_without_effect(config_, key); !why.empty())
        errors_.add(given->second,
                    fmt::format("{0}: {1} has no effect {2}; remove it, or reset it with ~{0}",
                                key.path, value_text(key), why));
    }
  }

  void check_data() {
    const bool size_is_right = check_image_size();
    check_mixes();
    try {
      const Transforms augment = make_transforms(config_.data);
      const bool opening_tells =
          config_.data.name == "image_folder" && config_.data.channels == Channels::kAuto;
      if (config_.data.name == "hdf5" || opening_tells) return;
      const ImageShape plain = image_shape(config_.data);
      const ImageShape made = plain.bytes() > 0 ? output_shape(augment, plain) : plain;
      channels_ = static_cast<size_t>(plain.channels);
      if (size_is_right && made == plain) image_ = made;
      if (made != plain)
        add({"data.augment"},
            "data.augment: training images would be {}x{}, but test images are {}x{}; remove the "
            "size of resize_crop, or set the size of the test images",
            made.height, made.width, plain.height, plain.width);
    } catch (const ConfigError& error) {
      add({"data.augment"}, "data.augment: {}", error.what());
    }
  }

  // Allows one mixup and one cutmix, because each kind draws its shares from one distribution.
  void check_mixes() {
    for (const char* kind : {"mixup", "cutmix"}) {
      const auto is_kind = [&](const AugmentConfig& step) { return step.kind == kind; };
      if (std::ranges::count_if(config_.data.augment, is_kind) > 1)
        add({"data.augment"},
            "data.augment: {0} is listed more than once, but each kind mixes a batch only once; "
            "remove all but one {0}",
            kind);
    }
  }

  bool check_image_size() {
    const int size = config_.data.image_size;
    const std::string& name = config_.data.name;
    if (name == "image_folder" && size == 0)
      add({"data.image_size", "data.name"},
          "data.image_size: must be set for image_folder, which scales and crops every picture to "
          "this number of pixels per side");
    else if (name == "synthetic" && size != 0 &&
             (size < kSmallestSynthetic || size > kLargestSynthetic))
      add({"data.image_size"},
          "data.image_size: must be {} to {} pixels per side for synthetic, but is {}",
          kSmallestSynthetic, kLargestSynthetic, size);
    else if (const int resize = config_.data.resize;
             name == "image_folder" && resize != 0 && resize < size)
      add({"data.resize", "data.image_size"},
          "data.resize: the short side of a picture becomes {} pixels, of which data.image_size "
          "crops {}; set {} or more, or 0 for data.image_size",
          resize, size, size);
    else
      return true;
    return false;
  }

  const Config& config_;
  const GivenKeys& given_;
  const std::set<std::string>& wrong_;
  const SourceRange& otherwise_;
  Diagnostics& errors_;
  std::optional<ImageShape> image_;  // input of the network, if known
  size_t channels_ = 0;              // 0: unknown
};

}  // namespace

void check_config(const Config& config, const GivenKeys& given, const std::set<std::string>& wrong,
                  const SourceRange& otherwise, Diagnostics& errors) {
  Checks(config, given, wrong, otherwise, errors).run();
}

}  // namespace tessera
