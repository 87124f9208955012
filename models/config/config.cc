#include "tessera/models/config/config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_keys.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/text/bytes.h"
#include "tessera/runtime/text/utf8.h"
#include "tessera/runtime/thread_pool.h"

namespace tessera {

namespace {

template <class T>
requires std::is_arithmetic_v<T> std::string quoted_if_needed(T value) {
  return fmt::format("{}", value);
}
template <class T>
requires requires(T value) { value.text(); }
std::string quoted_if_needed(const T& value) { return value.text(); }
std::string quoted_if_needed(const std::string& value);
std::string quoted_if_needed(const ValidationSource& value) {
  return value.folder.empty() ? value.text() : quoted_if_needed(value.folder);
}

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_./+-").find(c) != std::string_view::npos;
}

// Returns the value plain if every YAML parser reads it as a string, else in quotes.
std::string quoted_if_needed(const std::string& value) {
  const bool letter = !value.empty() && (value[0] == '/' || std::isalpha(value[0] & 0x7F));
  static const std::set<std::string> kTaken{"null", "true", "false", "yes", "no",
                                            "on",   "off",  "y",     "n"};
  if (letter && !kTaken.count(lower(value)) && std::ranges::all_of(value, is_word_character))
    return value;
  std::string quoted = "\"";
  for (size_t at = 0; at < value.size();) {
    const size_t bytes = utf8_at(value, at).bytes;
    if (value[at] == '"' || value[at] == '\\') quoted += '\\';
    quoted += value.substr(at, bytes);
    at += bytes;
  }
  return quoted + '"';
}

template <class T>
std::string quoted_if_needed(const std::optional<T>& value) {
  return value ? quoted_if_needed(*value) : "none";
}

template <class Step>
requires requires(Step step) { item_kinds(step); }
std::string quoted_if_needed(const Step& step);

template <class T>
std::string quoted_if_needed(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(quoted_if_needed(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

// Omits options that have their defaults.
template <class Step>
requires requires(Step step) { item_kinds(step); }
std::string quoted_if_needed(const Step& step) {
  Step copy = step, fresh;
  const std::vector<ItemKind> kinds = item_kinds(copy), defaults = item_kinds(fresh);
  size_t i = 0;
  while (i < kinds.size() && kinds[i].name != step.kind) ++i;
  if (i == kinds.size()) return step.kind;
  if (kinds[i].takes_value())
    return fmt::format("{{{}: {}}}", step.kind, value_text(kinds[i].options[0]));
  std::vector<std::string> options;
  for (size_t o = 0; o < kinds[i].options.size(); ++o) {
    const ConfigKey& option = kinds[i].options[o];
    const std::string value = value_text(option);
    if (option.rule.required || value != value_text(defaults[i].options[o]))
      options.push_back(fmt::format("{}: {}", option.path, value));
  }
  if (options.size() == 1 && kinds[i].takes_list())
    return fmt::format("{{{}: {}}}", step.kind, value_text(kinds[i].options[0]));
  if (options.empty())
    return kinds[i].may_be_bare() ? step.kind : fmt::format("{{{}: {{}}}}", step.kind);
  return fmt::format("{{{}: {{{}}}}}", step.kind, fmt::join(options, ", "));
}

bool has_option(const Config& config, const std::string& key) {
  const bool is_layered = !config.model.layers.empty();
  const std::vector<std::string> options = options_of_model(config.model.name, is_layered);
  return (key == "name" && !is_layered) || std::ranges::count(options, key) > 0;
}

// Returns the last source of a key: "resnet.yaml:10", "command line" or "default".
std::string origin_of(const Config& config, const std::string& key) {
  if (config.given == nullptr || !config.given->contains(key)) return "default";
  const SourceRange& range = config.given->at(key);
  return range.is_override() ? range.source->name
                             : fmt::format("{}:{}", range.source->name, range.line());
}

std::string layers_text(const std::vector<LayerConfig>& layers) {
  std::string lines;
  for (const LayerConfig& layer : layers) lines += "    - " + quoted_if_needed(layer) + "\n";
  return lines;
}

}  // namespace

int64_t Duration::steps(int64_t steps_per_epoch) const {
  constexpr double kMax = 0x1p62;  // llround() is undefined for values beyond 64 bits
  const double factor = unit == Unit::kEpochs ? static_cast<double>(steps_per_epoch) : 1;
  const double exact = std::min(count * factor, kMax);
  return exact > 0 ? std::max<int64_t>(1, std::llround(exact)) : 0;
}

std::string Duration::text() const {
  constexpr const char* kNames[] = {"st", "ep", "min", "h"};
  return fmt::format("{}{}", count, kNames[static_cast<int>(unit)]);
}

Workers Workers::automatic() {
  constexpr int kMax = 16;
  Workers workers(std::min(available_cores(), kMax));
  workers.automatic_ = true;
  return workers;
}

std::string Workers::text() const { return automatic_ ? "auto" : fmt::format("{}", count_); }

std::string ByteSize::text() const { return is_automatic() ? "auto" : exact_byte_text(bytes); }

int64_t TrainConfig::total_steps(int64_t steps_per_epoch) const {
  if (steps) return *steps;
  return Duration{epochs, Duration::Unit::kEpochs}.steps(steps_per_epoch);
}

// Items of data.augment and optimizer.groups; those of model.layers are next to their builders, in
// layer_network.cc.

bool ItemKind::may_be_bare() const {
  return !takes_value() &&
         std::ranges::none_of(options, [](const ConfigKey& key) { return key.rule.required; });
}

bool ItemKind::takes_list() const {
  return !options.empty() && !takes_value() &&
         std::holds_alternative<std::vector<LayerConfig>*>(options[0].target);
}

// clang-format off
std::vector<ItemKind> item_kinds(AugmentConfig& a) {
  return {
    {"crop", "pads the image and crops it to its own size at a random position", {
      {"padding", &a.padding, required(at_least(0, 4096)), "pixels of padding on each side before cropping"},
      {"border", &a.border, one_of<CropBorder>(), "value of the padding: black, or reflected"}}},
    {"flip", "flips images with probability 1/2", {
      {"", &a.flip, one_of({"horizontal", "vertical"}), "swaps left and right, or top and bottom"}}},
    {"rotate", "rotates images by a random angle, to the nearest pixel", {
      {"degrees", &a.degrees, required(at_least(0, 180)), "the largest angle, in both directions"}}},
    {"resize_crop", "crops and scales a random part; list resize_crop first", {
      {"size", &a.size, at_least(0, 4096), "pixels per side; 0: the data set's"},
      {"scale", &a.scale, at_least(0, 1), "[low, high] of the relative area of the part"},
      {"ratio", &a.ratio, at_least(0, 100), "[low, high] of the ratio of width to height of the part"}}},
    {"color_jitter", "changes colors by random factors from 1 - x to 1 + x", {
      {"brightness", &a.brightness, at_least(0, 10), "x"},
      {"contrast", &a.contrast, at_least(0, 10), "x"},
      {"saturation", &a.saturation, at_least(0, 10), "x"},
      {"hue", &a.hue, at_least(0, 0.5), "rotates hues by up to this fraction of the color circle"}}},
    {"cutout", "paints a gray square at a random position", {
      {"size", &a.size, required(at_least(1, 4096)), "pixels per side"},
      {"level", &a.level, at_least(0, 255), "gray level"},
      {"probability", &a.probability, at_least(0, 1), "probability that an image is changed"}}},
    {"random_erasing", "paints a random rectangle", {
      {"probability", &a.erase_probability, at_least(0, 1), "probability that an image is changed"},
      {"scale", &a.erased, at_least(0, 1), "[low, high] of the relative area"},
      {"ratio", &a.form, at_least(0, 100), "[low, high] of the ratio of height to width"},
      {"mode", &a.mode, one_of<EraseMode>(), "gray of `level`, one random color, or a random color for each pixel"},
      {"level", &a.erase_level, at_least(0, 255), "gray level"}}},
    {"trivial_augment", "applies one of the transforms of rand_augment with random strength", {}},
    {"rand_augment", "applies n of fourteen random transforms", {
      {"n", &a.n, at_least(1, 16), "number of transforms"},
      {"magnitude", &a.magnitude, at_least(0, 30), "strength, out of 30"}}},
    {"mixup", "mixes images of a batch, and their labels", {
      {"alpha", &a.alpha, at_least(0, 100), "parameter of the Beta distribution of the shares"},
      {"probability", &a.probability, at_least(0, 1), "probability; with cutmix, among the images that draw mixup"}}},
    {"cutmix", "pastes a part of another image of the batch, and mixes the labels", {
      {"alpha", &a.alpha, at_least(0, 100), "parameter of the Beta distribution of the shares"},
      {"probability", &a.probability, at_least(0, 1), "probability; with mixup, among the images that draw cutmix"}}},
  };
}
std::vector<ItemKind> item_kinds(GroupConfig& g) {
  const KeyRule factor = at_least(0, kMaxFloat);
  const ConfigKey lr{"lr", &g.lr, factor, "factor of lr"},
      decay{"weight_decay", &g.weight_decay, factor, "factor of weight_decay"};
  return {
    {"vectors", "1-D parameters: biases and norm scales", {lr, decay}},
    {"named", "the parameters of a part of the network", {
      {"part", &g.part, required(any()), "name of the part, such as fc or layer1.0"}, lr, decay}},
  };
}
// clang-format on

std::string value_text(const ConfigKey& key) {
  return std::visit([](const auto* target) { return quoted_if_needed(*target); }, key.target);
}

std::string print_config(const Config& config, bool with_origins) {
  constexpr size_t kCommentColumn = 40;
  Config copy = config;
  std::string out, group;
  for (const ConfigKey& key : config_keys(copy)) {
    if (key.path == "train.epochs" && config.train.steps) continue;  // train.steps replaces it
    if (key.group() == "model" && !has_option(config, key.leaf())) continue;
    if (!why_without_effect(config, key).empty()) continue;
    if (key.group() != group) {
      group = key.group();
      out += group + ":\n";
    }
    const bool is_layers = key.path == "model.layers";
    std::string line = fmt::format("{}{}:{}{}", group.empty() ? "" : "  ", key.leaf(),
                                   is_layers ? "" : " ", is_layers ? "" : value_text(key));
    if (with_origins) {
      line.append(kCommentColumn - std::min(kCommentColumn, line.size()), ' ');
      line += "  # " + origin_of(config, key.path);
    }
    out += line + "\n";
    if (is_layers) out += layers_text(config.model.layers);
  }
  if (with_origins)
    for (const std::string& key : config.ignored_keys) out += "# ignored: " + key + "\n";
  return out;
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

bool names_cpu(const Config& config) {
  return lower(config.device.substr(config.device.starts_with('/') ? 1 : 0, 3)) == "cpu";
}

std::vector<std::string> options_of_model(const std::string& name, bool is_layered) {
  std::vector<std::string> options =
      is_layered ? std::vector<std::string>{"classes", "layers"} : model_options(name);
  if (!options.empty()) options.emplace_back("weights");
  return options;
}

std::string choice_that_puts_aside(const ConfigKey& key) {
  return key.when && key.when->puts_aside ? key.when->choice->key : "";
}

std::string why_without_effect(const Config& config, const ConfigKey& key) {
  if (!key.when) return "";
  const std::string chosen = key.when->choice->chosen(config);
  if (std::ranges::count(key.when->values, chosen) > 0 || is_default(key)) return "";
  return fmt::format("with {}: {}; it applies only to {}", key.when->choice->key, chosen,
                     fmt::join(key.when->values, ", "));
}

std::map<std::string, std::string> config_values(std::string_view text) {
  std::map<std::string, std::string> values;
  std::string group, key;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const bool indented = line.starts_with("  ");
    const size_t colon = line.find(": ");
    if (!indented && line.ends_with(':')) {
      group = line.substr(0, line.size() - 1) + ".";
    } else if (colon != std::string_view::npos && !line.starts_with("   ") &&
               !line.starts_with("  -")) {
      key = indented ? group + line.substr(2, colon - 2) : line.substr(0, colon);
      values[key] = line.substr(colon + 2);
    } else if (!key.empty()) {  // a value of several lines
      values[key] += line;
    }
  }
  return values;
}

}  // namespace tessera
