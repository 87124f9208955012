#include "tessera/models/config/config_effect.h"

#include <algorithm>
#include <cctype>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_print.h"
#include "tessera/models/zoo/zoo.h"

namespace tessera {

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
  return fmt::format("with {}: {}; it belongs to {}", key.when->choice->key, chosen,
                     fmt::join(key.when->values, ", "));
}

}  // namespace tessera
