// Config to YAML, along config_keys().
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "tessera/models/config.h"
#include "tessera/models/config_keys.h"

namespace tessera {

namespace {

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(double value) { return fmt::format("{}", value); }
std::string text_of(int value) { return fmt::format("{}", value); }
std::string text_of(int64_t value) { return fmt::format("{}", value); }
std::string text_of(uint64_t value) { return fmt::format("{}", value); }
std::string text_of(const Duration& value) { return value.text(); }

// Quoted where YAML needs it; in a flow, so that commas and brackets count.
std::string text_of(const std::string& value) {
  YAML::Emitter emitter;
  emitter << YAML::Flow << YAML::BeginSeq << value << YAML::EndSeq;
  std::string list = emitter.c_str();
  return list.substr(1, list.size() - 2);
}

std::string text_of(const AugmentConfig& step) {
  if (step.kind == AugmentConfig::Kind::kFlip) return "{flip: horizontal}";
  return fmt::format("{{crop: {{padding: {}{}}}}}", step.padding,
                     step.border == CropBorder::kReflect ? ", border: reflect" : "");
}

// "" for a value that is not given.
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "";
}

template <class T>
std::string text_of(const std::vector<T>& values) {
  std::vector<std::string> texts;
  for (const T& value : values) texts.push_back(text_of(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

}  // namespace

std::string print_config(const Config& config) {
  Config copy = config;
  std::string out, group;
  for (const ConfigKey& key : config_keys(copy)) {
    if (key.path == "train.epochs" && config.train.steps) continue;  // the steps count
    std::string value = std::visit([](auto* target) { return text_of(*target); }, key.target);
    if (value.empty()) continue;
    size_t dot = key.path.find('.');
    if (dot == std::string::npos) {
      out += fmt::format("{}: {}\n", key.path, value);
      continue;
    }
    if (key.path.substr(0, dot) != group) {
      group = key.path.substr(0, dot);
      out += group + ":\n";
    }
    out += fmt::format("  {}: {}\n", key.path.substr(dot + 1), value);
  }
  return out;
}

}  // namespace tessera
