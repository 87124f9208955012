#include "tessera/models/config/config_effect.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_print.h"
#include "tessera/models/config/optimizers.h"
#include "tessera/models/data/dataset.h"
#include "tessera/models/data/sets/published.h"
#include "tessera/models/zoo/zoo.h"

namespace tessera {

namespace {

// A key that only some values of another one know.
struct Dependent {
  std::string path;
  const char* choice;
  std::string (*chosen)(const Config& config);
  std::vector<std::string> known_to;
  bool put_aside = false;  // of a file, where an override makes another choice
};

std::string data(const Config& config) { return config.data.name; }
std::string optimizer(const Config& config) { return config.optimizer.name.text(); }
std::string loss(const Config& config) { return config.loss.name.text(); }
std::string schedule(const Config& config) { return config.schedule.name.text(); }
// What is not certain to be a CPU may be a GPU.
std::string device(const Config& config) { return names_cpu(config) ? "cpu" : "gpu"; }
std::string mode(const Config& config) { return config.mode.text(); }
std::string ema(const Config& config) { return config.ema.decay ? "any number" : "none"; }
std::string some(int count) { return count == 0 ? "0" : "1 or more"; }
std::string keep(const Config& config) { return some(config.checkpoint.keep); }
std::string workers(const Config& config) { return some(config.data.workers); }

constexpr const char* kNamedArrays = "hdf5 with data.images";
constexpr const char* kCutFile = "hdf5 with data.images without {split}";
// The data set, and what is said of an HDF5 file.
std::string arrays(const Config& config) {
  return data(config) == "hdf5" && !config.data.images.empty() ? kNamedArrays : data(config);
}
std::string cut(const Config& config) {
  const bool has_split = config.data.images.find("{split}") != std::string::npos;
  return arrays(config) == kNamedArrays && !has_split ? kCutFile : arrays(config);
}

// Published data sets with a coarse and a fine label, and files whose labels have a path.
std::vector<std::string> with_labels() {
  std::vector<std::string> names;
  for (const PublishedSet& set : published_sets())
    if (set.labels.size() > 1) names.push_back(set.name);
  names.emplace_back(kNamedArrays);
  return names;
}

// Data sets that are read from somewhere.
std::vector<std::string> files() {
  std::vector<std::string> names = data_names();
  std::erase(names, "synthetic");
  return names;
}

const std::vector<Dependent>& dependents() {
  static const std::vector<Dependent> all = [] {
    std::vector<Dependent> known{
        {"deterministic", "device", device, {"gpu"}},
        {"gpu.tf32", "device", device, {"gpu"}, true},
        {"gpu.cuda_graph", "device", device, {"gpu"}, true},
        {"gpu.synchronous", "device", device, {"gpu"}, true},
        {"gpu.workspace", "device", device, {"gpu"}, true},
        {"gpu.plans", "device", device, {"gpu"}, true},
        {"devices.gpu", "device", device, {"gpu"}, true},
        {"memory.gpu_limit", "device", device, {"gpu"}, true},
        {"data.root", "data.name", data, files(), true},
        {"data.read_ahead", "data.workers", workers, {"1 or more"}, true},
        {"memory.planner", "mode", mode, {"graph"}, true},
        {"memory.budget", "mode", mode, {"graph"}},
        {"memory.recompute", "mode", mode, {"graph"}, true},
        {"memory.costs", "mode", mode, {"graph"}, true},
        {"memory.allocator", "mode", mode, {"eager"}, true},
        {"memory.reserve", "mode", mode, {"eager"}, true},
        {"checkpoint.best", "checkpoint.keep", keep, {"1 or more"}, true},
        {"checkpoint.use", "checkpoint.keep", keep, {"1 or more"}, true},
        {"data.image_size", "data.name", data, {"image_folder", "synthetic"}},
        {"data.labels", "data.name", arrays, with_labels(), true},
        {"data.images", "data.name", data, {"hdf5"}, true},
        {"data.layout", "data.name", arrays, {kNamedArrays}, true},
        {"data.range", "data.name", arrays, {kNamedArrays}, true},
        {"data.class_names", "data.name", arrays, {kNamedArrays}, true},
        {"data.test_part", "data.name", cut, {kCutFile}, true},
        {"data.cache", "data.name", data, {"hdf5"}, true},
        {"data.damaged", "data.name", data, {"image_folder"}},
        {"data.channels", "data.name", data, {"image_folder"}, true},
        {"data.follow_links", "data.name", data, {"image_folder"}, true},
        {"ema.warmup", "ema.decay", ema, {"any number"}, true},
        {"loss.class_weights", "loss.name", loss, {"cross_entropy"}, true},
        {"loss.target_threshold", "loss.name", loss, {"bce"}, true},
        {"schedule.every", "schedule.name", schedule, {"step", "exponential"}},
        {"schedule.milestones", "schedule.name", schedule, {"multistep"}},
        {"schedule.gamma",
         "schedule.name",
         schedule,
         {"step", "multistep", "exponential", "plateau"}},
        {"schedule.final_lr",
         "schedule.name",
         schedule,
         {"cosine", "linear", "one_cycle", "polynomial", "cosine_restarts", "wsd", "plateau"}},
        {"schedule.power", "schedule.name", schedule, {"polynomial"}},
        {"schedule.period", "schedule.name", schedule, {"cosine_restarts"}},
        {"schedule.period_factor", "schedule.name", schedule, {"cosine_restarts"}},
        {"schedule.decay", "schedule.name", schedule, {"wsd"}},
        {"schedule.patience", "schedule.name", schedule, {"plateau"}},
        {"schedule.cooldown", "schedule.name", schedule, {"plateau"}},
        {"schedule.threshold", "schedule.name", schedule, {"plateau"}},
        {"schedule.start_factor", "schedule.name", schedule, {"one_cycle"}},
        {"schedule.peak_at", "schedule.name", schedule, {"one_cycle"}},
    };
    OptimizerConfig config;
    for (const ConfigKey& key : optimizer_keys(config))
      known.push_back({key.path, "optimizer.name", optimizer, optimizers_with(key.leaf()), true});
    return known;
  }();
  return all;
}

bool is_default(const ConfigKey& key) {
  static const std::map<std::string, std::string> defaults = [] {
    Config fresh;
    std::map<std::string, std::string> texts;
    for (const ConfigKey& known : config_keys(fresh)) texts[known.path] = value_text(known);
    return texts;
  }();
  return defaults.at(key.path) == value_text(key);
}

}  // namespace

bool names_cpu(const Config& config) {
  std::string name = config.device.substr(config.device.starts_with('/') ? 1 : 0, 3);
  for (char& c : name) c = static_cast<char>(std::tolower(c & 0x7F));
  return name == "cpu";
}

std::vector<std::string> options_of_model(const std::string& name, bool is_layered) {
  std::vector<std::string> options =
      is_layered ? std::vector<std::string>{"classes", "layers"} : model_options(name);
  if (!options.empty()) options.emplace_back("weights");
  return options;
}

std::string choice_that_puts_aside(const std::string& path) {
  for (const Dependent& known : dependents())
    if (known.path == path && known.put_aside) return known.choice;
  return "";
}

std::string why_without_effect(const Config& config, const ConfigKey& key) {
  for (const Dependent& known : dependents()) {
    if (known.path != key.path) continue;
    const std::string chosen = known.chosen(config);
    const bool belongs =
        std::find(known.known_to.begin(), known.known_to.end(), chosen) != known.known_to.end();
    if (belongs || is_default(key)) return "";
    return fmt::format("with {}: {}; it belongs to {}", known.choice, chosen,
                       fmt::join(known.known_to, ", "));
  }
  return "";
}

}  // namespace tessera
