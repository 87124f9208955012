// Prints a Config as YAML along config_keys(), and finds keys without effect.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_keys.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

std::string quoted_if_needed(bool value) { return value ? "true" : "false"; }
std::string quoted_if_needed(double value) { return fmt::format("{}", value); }
std::string quoted_if_needed(int value) { return fmt::format("{}", value); }
std::string quoted_if_needed(int64_t value) { return fmt::format("{}", value); }
std::string quoted_if_needed(uint64_t value) { return fmt::format("{}", value); }
std::string quoted_if_needed(const Duration& value) { return value.text(); }
std::string quoted_if_needed(const ByteSize& value) { return value.text(); }
std::string quoted_if_needed(const NamedEnumValue& value) { return value.text(); }
std::string quoted_if_needed(const Workers& value) { return value.text(); }
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
  std::string lower = value;
  for (char& c : lower) c = static_cast<char>(std::tolower(c & 0x7F));
  if (letter && !kTaken.count(lower) && std::ranges::all_of(value, is_word_character)) return value;
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

// Returns true if the key applies to the model.
bool has_option(const Config& config, const std::string& key) {
  const bool is_layered = !config.model.layers.empty();
  const std::vector<std::string> options = options_of_model(config.model.name, is_layered);
  return (key == "name" && !is_layered) ||
         std::find(options.begin(), options.end(), key) != options.end();
}

// Returns the layers, one per line.
std::string layers_text(const std::vector<LayerConfig>& layers) {
  std::string lines;
  for (const LayerConfig& layer : layers) lines += "    - " + quoted_if_needed(layer) + "\n";
  return lines;
}

}  // namespace

std::string value_text(const ConfigKey& key) {
  return std::visit([](const auto* target) { return quoted_if_needed(*target); }, key.target);
}

std::string print_config(const Config& config, const ConfigOrigins* origins) {
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
    if (origins != nullptr) {
      const auto given = origins->find(key.path);
      line += fmt::format("{}  # {}",
                          std::string(kCommentColumn - std::min(kCommentColumn, line.size()), ' '),
                          given == origins->end() ? "default" : given->second);
    }
    out += line + "\n";
    if (is_layers) out += layers_text(config.model.layers);
  }
  if (origins != nullptr)
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
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool indented = line.starts_with("  ");
    const size_t colon = line.find(": ");
    if (!indented && line.ends_with(':')) {
      group = std::string(line.substr(0, line.size() - 1)) + ".";
    } else if (colon != std::string_view::npos && !line.starts_with("   ") &&
               !line.starts_with("  -")) {
      key = indented ? group + std::string(line.substr(2, colon - 2))
                     : std::string(line.substr(0, colon));
      values[key] = line.substr(colon + 2);
    } else if (!key.empty()) {  // a value of several lines
      values[key] += line;
    }
  }
  return values;
}

}  // namespace tessera
