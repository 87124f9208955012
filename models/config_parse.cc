// YAML to Config: walks the document along config_keys(), and gathers every error on the way.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <type_traits>

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include "tessera/models/config.h"
#include "tessera/models/config_keys.h"
#include "tessera/models/spelling.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// The errors of one parse, and which text they are about just now.
class Errors {
 public:
  // "resnet.yaml:3:7: text", or "command line: train.stesp=5: text" for an override.
  void add(const std::string& place, const std::string& text) { lines_.push_back(place + text); }
  void throw_if_any() const {
    if (lines_.empty()) return;
    std::string all;
    for (const std::string& line : lines_) all += (all.empty() ? "" : "\n") + line;
    throw ConfigError(all);
  }

 private:
  std::vector<std::string> lines_;
};

// Where a text came from: a file has lines and columns, an override is short enough without.
struct Source {
  std::string name;
  bool is_override = false;

  std::string at(const YAML::Mark& mark) const {
    if (is_override || mark.is_null()) return name + ": ";
    return fmt::format("{}:{}:{}: ", name, mark.line + 1, mark.column + 1);
  }
};

constexpr int kMostPadding = 4096;  // of a crop, in pixels

template <class T>
bool read_number(std::string_view text, T& value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if constexpr (std::is_floating_point_v<T>) return std::isfinite(value);
  return true;
}

bool in_range(double value, const KeyRule& rule) {
  if (rule.above_min ? value <= rule.min : value < rule.min) return false;
  return rule.below_max ? value < rule.max : value <= rule.max;
}

// Reads one value into its place. Each read() is false when the value is not what the key expects;
// the caller says so. Only lists of steps, whose errors lie deeper, report themselves.
class ValueReader {
 public:
  ValueReader(const ConfigKey& key, const Source& source, Errors& errors)
      : key_(key), source_(source), errors_(errors) {}

  bool read(const YAML::Node& node, bool& value) const {
    if (!plain(node) || (node.Scalar() != "true" && node.Scalar() != "false")) return false;
    value = node.Scalar() == "true";
    return true;
  }

  template <class T>
  requires std::is_arithmetic_v<T>
  bool read(const YAML::Node& node, T& value) const {
    T number{};
    if (!plain(node) || !read_number(node.Scalar(), number)) return false;
    if (!in_range(static_cast<double>(number), key_.rule)) return false;
    value = number;
    return true;
  }

  bool read(const YAML::Node& node, std::string& value) const {
    if (!node.IsScalar()) return false;
    const std::vector<std::string>& names = key_.rule.names;
    if (!names.empty() && std::find(names.begin(), names.end(), node.Scalar()) == names.end()) {
      errors_.add(source_.at(node.Mark()),
                  fmt::format("{}: {}", key_.path, unknown_name(node.Scalar(), names)));
      return true;
    }
    value = node.Scalar();
    return true;
  }

  bool read(const YAML::Node& node, Duration& value) const {
    if (!plain(node)) return false;
    std::string_view text = node.Scalar();
    Duration given;
    if (text.ends_with("ep") || text.ends_with("st")) {
      if (text.ends_with("ep")) given.unit = Duration::Unit::kEpochs;
      text.remove_suffix(2);
    } else if (text != "0") {
      return false;
    }
    if (!read_number(text, given.count) || !in_range(given.count, key_.rule)) return false;
    if (given.unit == Duration::Unit::kSteps && given.count != std::floor(given.count))
      return false;
    value = given;
    return true;
  }

  template <class T>
  bool read(const YAML::Node& node, std::optional<T>& value) const {
    T given{};
    if (!read(node, given)) return false;
    value = given;
    return true;
  }

  template <class T>
  bool read(const YAML::Node& node, std::vector<T>& value) const {
    if (!node.IsSequence()) return false;
    std::vector<T> all;
    for (const YAML::Node& entry : node) {
      T given{};
      if (!read(entry, given)) return false;
      all.push_back(given);
    }
    value = all;
    return true;
  }

  bool read(const YAML::Node& node, AugmentConfig& value) const {
    if (!node.IsMap() || node.size() != 1) return false;
    const YAML::Node name = node.begin()->first, settings = node.begin()->second;
    if (!name.IsScalar()) return false;
    if (name.Scalar() == "crop") return read_crop(settings, value);
    if (name.Scalar() == "flip") {
      value.kind = AugmentConfig::Kind::kFlip;
      if (settings.IsScalar() && settings.Scalar() == "horizontal") return true;
      errors_.add(source_.at(name.Mark()), key_.path + ": flip is written {flip: horizontal}");
      return true;
    }
    errors_.add(source_.at(name.Mark()),
                key_.path + ": " + unknown_name(name.Scalar(), {"crop", "flip"}));
    return true;
  }

 private:
  // Written without quotes: "15" is a text, 15 a number.
  static bool plain(const YAML::Node& node) { return node.IsScalar() && node.Tag() != "!"; }

  bool read_crop(const YAML::Node& settings, AugmentConfig& value) const {
    value.kind = AugmentConfig::Kind::kCrop;
    if (!settings.IsMap()) return false;
    bool padded = false;
    for (const auto& setting : settings) {
      const YAML::Node &name = setting.first, &given = setting.second;
      if (!name.IsScalar() || !given.IsScalar()) return false;
      if (name.Scalar() == "padding") {
        if (padded || !plain(given) || !read_number(given.Scalar(), value.padding)) return false;
        if (value.padding < 0 || value.padding > kMostPadding) return false;
        padded = true;
      } else if (name.Scalar() == "border") {
        if (given.Scalar() != "zero" && given.Scalar() != "reflect") return false;
        if (given.Scalar() == "reflect") value.border = CropBorder::kReflect;
      } else {
        errors_.add(source_.at(name.Mark()),
                    key_.path + ": crop: " + unknown_name(name.Scalar(), {"padding", "border"}));
        return true;
      }
    }
    return padded;
  }

  const ConfigKey& key_;
  const Source& source_;
  Errors& errors_;
};

class Parser {
 public:
  explicit Parser(Config& config) : config_(config), keys_(config_keys(config)) {}

  void file(const std::string& text, const std::string& name) {
    Source source{name};
    std::optional<YAML::Node> root = document(text, source);
    if (!root || root->IsNull()) return;
    if (!root->IsMap()) {
      errors_.add(source.at(root->Mark()), "a configuration is a map of keys, such as `seed: 1`");
      return;
    }
    read_map(*root, "", source);
  }

  void override_key(const std::string& text) {
    Source source{"command line: " + text, true};
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      errors_.add(source.name, ": an override is written key=value, such as train.steps=50");
      return;
    }
    std::string path = text.substr(0, equals);
    if (std::optional<YAML::Node> value = document(text.substr(equals + 1), source)) {
      read_entry(path, *value, YAML::Mark::null_mark(), source);
    }
  }

  // What several keys must keep between them; then the errors of all.
  void finish() {
    check_length();
    check_schedule();
    const OptimizerConfig& optimizer = config_.optimizer;
    if (optimizer.name == "sgd" && optimizer.nesterov && optimizer.momentum == 0) {
      errors_.add(places_["optimizer.nesterov"], "optimizer.nesterov: needs a momentum above 0");
    }
    if (config_.data.mean.size() != config_.data.std.size()) {
      errors_.add(places_[places_.count("data.mean") ? "data.mean" : "data.std"],
                  fmt::format("data.mean and data.std: must have one entry per channel each, but "
                              "have {} and {}",
                              config_.data.mean.size(), config_.data.std.size()));
    }
    errors_.throw_if_any();
  }

 private:
  std::optional<YAML::Node> document(const std::string& text, const Source& source) {
    try {
      std::vector<YAML::Node> documents = YAML::LoadAll(text);
      if (documents.size() <= 1) return documents.empty() ? YAML::Node() : documents[0];
      errors_.add(source.at(documents[1].Mark()), "a second document; one is read");
    } catch (const YAML::Exception& error) {
      errors_.add(source.at(error.mark), "not YAML: " + error.msg);
    }
    return std::nullopt;
  }

  void read_map(const YAML::Node& map, const std::string& prefix, const Source& source) {
    std::map<std::string, YAML::Mark> seen;
    for (const auto& entry : map) {
      const YAML::Node &name = entry.first, &value = entry.second;
      if (!name.IsScalar()) {
        errors_.add(source.at(name.Mark()), "a key must be a word");
        continue;
      }
      std::string path = prefix + name.Scalar();
      auto [first, is_new] = seen.emplace(path, name.Mark());
      if (!is_new) {
        errors_.add(source.at(name.Mark()), fmt::format("{}: is given twice, first in line {}",
                                                        path, first->second.line + 1));
        continue;
      }
      read_entry(path, value, name.Mark(), source);
    }
  }

  void read_entry(const std::string& path, const YAML::Node& value, const YAML::Mark& key_mark,
                  const Source& source) {
    auto key = std::find_if(keys_.begin(), keys_.end(),
                            [&](const ConfigKey& known) { return known.path == path; });
    if (key != keys_.end()) {
      read_value(*key, value, key_mark, source);
    } else if (!is_group(path)) {
      errors_.add(source.at(key_mark), unknown_key(path));
    } else if (!value.IsMap()) {
      errors_.add(source.at(value.IsNull() ? key_mark : value.Mark()),
                  fmt::format("{}: must be a map of keys ({})", path,
                              fmt::join(children(path + "."), ", ")));
    } else {
      read_map(value, path + ".", source);
    }
  }

  void read_value(const ConfigKey& key, const YAML::Node& value, const YAML::Mark& key_mark,
                  const Source& source) {
    places_[key.path] = source.at(key_mark);
    from_file_[key.path] = !source.is_override;
    ValueReader reader(key, source, errors_);
    bool right = std::visit([&](auto* target) { return reader.read(value, *target); }, key.target);
    if (right) return;
    std::string given = ", but the value is missing";
    if (value.IsScalar()) {
      given = fmt::format(", but is {}{}{}", value.Tag() == "!" ? "the text '" : "'",
                          value.Scalar().substr(0, 64), "'");
    } else if (!value.IsNull()) {
      given = value.IsMap() ? ", but is a map" : ", but this list is not";
    }
    errors_.add(source.at(value.IsNull() ? key_mark : value.Mark()),
                fmt::format("{}: must be {}{}", key.path, expected(key), given));
  }

  bool is_group(const std::string& path) const { return !children(path + ".").empty(); }

  // The names under a prefix that ends in '.', or at the top for "".
  std::vector<std::string> children(const std::string& prefix) const {
    std::vector<std::string> names;
    for (const ConfigKey& key : keys_) {
      if (!key.path.starts_with(prefix)) continue;
      std::string name = key.path.substr(prefix.size());
      name = name.substr(0, name.find('.'));
      if (names.empty() || names.back() != name) names.push_back(name);
    }
    return names;
  }

  std::string unknown_key(const std::string& path) const {
    size_t dot = path.rfind('.');
    std::string prefix = dot == std::string::npos ? "" : path.substr(0, dot + 1);
    std::vector<std::string> known = children(prefix);
    if (known.empty()) known = children(prefix = "");
    std::string name = path.starts_with(prefix) ? path.substr(prefix.size()) : path;
    std::string text = prefix.empty() ? "unknown key: "
                                      : fmt::format("unknown key in {}: ", prefix.substr(0, dot));
    if (nearest_spelling(name, known).empty()) {  // perhaps right, but in another group
      for (const ConfigKey& key : keys_) {
        if (!key.path.ends_with("." + path.substr(dot + 1))) continue;
        return text + fmt::format("'{}' is not known; did you mean '{}'? (known: {})", name,
                                  key.path, fmt::join(known, ", "));
      }
    }
    return text + unknown_name(name, known);
  }

  // epochs or steps: both in the file contradict each other; an override puts the other aside.
  void check_length() {
    bool steps = from_file_.count("train.steps"), epochs = from_file_.count("train.epochs");
    if (steps && epochs) {
      if (from_file_["train.steps"] == from_file_["train.epochs"]) {
        errors_.add(places_["train.steps"], "train.steps: give it or train.epochs, not both");
        return;
      }
      if (from_file_["train.steps"]) config_.train.steps.reset();
    }
    if (config_.train.steps) config_.train.epochs = TrainConfig().epochs;
  }

  void check_schedule() {
    const ScheduleConfig& schedule = config_.schedule;
    if (schedule.name == "one_cycle" && schedule.warmup.count > 0) {
      errors_.add(places_["schedule.warmup"],
                  "schedule.warmup: one_cycle rises by itself; set start_factor and peak_at");
    }
    if (schedule.name == "multistep" && schedule.milestones.empty()) {
      errors_.add(places_["schedule.name"],
                  "schedule.milestones: multistep needs some, such as [32000st, 48000st]");
    }
    for (size_t i = 1; i < schedule.milestones.size(); ++i) {
      const Duration &before = schedule.milestones[i - 1], &now = schedule.milestones[i];
      if (before.unit != now.unit || before.count < now.count) continue;
      errors_.add(places_["schedule.milestones"],
                  fmt::format("schedule.milestones: must rise, but {} follows {}", now.text(),
                              before.text()));
    }
  }

  Config& config_;
  std::vector<ConfigKey> keys_;
  Errors errors_;
  std::map<std::string, std::string> places_;  // where each key was given last
  std::map<std::string, bool> from_file_;      // and whether that was in the file
};

}  // namespace

Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides) {
  Config config;
  Parser parser(config);
  parser.file(std::string(text), name);
  for (const std::string& text : overrides) parser.override_key(text);
  parser.finish();
  return config;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  std::ifstream file(path, std::ios::binary);
  std::string text, part(4096, '\0');
  while (text.size() <= kMostBytes && file.read(part.data(), std::ssize(part)).gcount() > 0)
    text.append(part, 0, static_cast<size_t>(file.gcount()));
  if (!file.eof() && text.size() <= kMostBytes) {
    throw ConfigError(
        fmt::format("{}: cannot be read as a file; give the path of a configuration", path));
  }
  if (text.size() > kMostBytes) {
    throw ConfigError(fmt::format("{}: is no configuration: it is larger than 1 MiB", path));
  }
  return parse_config(text, path, overrides);
}

}  // namespace tessera
