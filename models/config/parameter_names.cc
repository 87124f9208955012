#include "tessera/models/config/parameter_names.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/spelling.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {
namespace {

bool is_part(const std::string& name, const std::string& part) {
  return name == part || name.starts_with(part + ".");
}

bool is_in(const std::string& name, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [&](const std::string& part) { return is_part(name, part); });
}

bool is_frozen(const TrainConfig& config, const std::string& name) {
  return is_in(name, config.freeze) ||
         (!config.freeze_all_but.empty() && !is_in(name, config.freeze_all_but));
}

// Returns the names of all parts and parameters, those with the fewest dots first.
std::vector<std::string> parts_of(const Tensors& parameters) {
  std::vector<std::string> parts;
  std::set<std::string> known;
  for (const Tensor& parameter : parameters) {
    const std::string& name = persistent_name(parameter);
    for (size_t dot = name.find('.');; dot = name.find('.', dot + 1)) {
      if (known.insert(name.substr(0, dot)).second) parts.push_back(name.substr(0, dot));
      if (dot == std::string::npos) break;
    }
  }
  std::ranges::stable_sort(parts, [](const std::string& a, const std::string& b) {
    return std::count(a.begin(), a.end(), '.') < std::count(b.begin(), b.end(), '.');
  });
  return parts;
}

std::string unknown_text(const std::string& part, const std::vector<std::string>& parts) {
  const std::string nearest = nearest_spelling(part, parts);
  std::vector<std::string> outer;
  for (const std::string& known : parts)
    if (known.find('.') == std::string::npos) outer.push_back(known);
  return fmt::format(
      "the network has no part '{}'{} (its parts: {})", utf8_printable(part.substr(0, 64)),
      nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest), fmt::join(outer, ", "));
}

// Returns the layer for optimizer.layer_decay: "layer1.0" for "layer1.0.conv1.weight", "fc" for
// "fc.bias".
std::string layer_of(const std::string& name) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return name;
  const size_t next = std::min(name.find('.', dot + 1), name.size());
  const std::string second = name.substr(dot + 1, next - dot - 1);
  const bool is_number =
      std::ranges::all_of(second, [](unsigned char c) { return std::isdigit(c) != 0; });
  return is_number ? name.substr(0, next) : name.substr(0, dot);
}

}  // namespace

std::optional<UnknownPart> find_unknown_part(const Config& config, const Tensors& parameters) {
  const std::vector<std::string> parts = parts_of(parameters);
  const auto is_known = [&](const std::string& part) {
    return std::find(parts.begin(), parts.end(), part) != parts.end();
  };
  for (const auto& [key, names] : {std::pair("train.freeze", &config.train.freeze),
                                   {"train.freeze_all_but", &config.train.freeze_all_but}})
    for (const std::string& part : *names)
      if (!is_known(part)) return UnknownPart{key, unknown_text(part, parts)};
  for (const GroupConfig& group : config.optimizer.groups)
    if (group.kind == "named" && !is_known(group.part))
      return UnknownPart{"optimizer.groups", unknown_text(group.part, parts)};
  const auto frozen = [&](const Tensor& parameter) {
    return is_frozen(config.train, persistent_name(parameter));
  };
  if (!parameters.empty() && std::ranges::all_of(parameters, frozen))
    return UnknownPart{config.train.freeze.empty() ? "train.freeze_all_but" : "train.freeze",
                       "nothing is left to train"};
  return {};
}

void freeze(const TrainConfig& config, Store& store) {
  Config all;
  all.train = config;
  if (const auto unknown = find_unknown_part(all, store.parameters()))
    throw ConfigError(fmt::format("{}: {}", unknown->key, unknown->text));
  const Tensors parameters = store.parameters();
  for (const Tensor& parameter : parameters) {
    const std::string& name = persistent_name(parameter);
    if (is_frozen(config, name)) store.freeze(name);
  }
}

std::vector<ParameterScale> parameter_scales(const OptimizerConfig& config,
                                             const Tensors& parameters) {
  std::vector<std::string> layers;
  for (const Tensor& parameter : parameters)
    if (const std::string layer = layer_of(persistent_name(parameter));
        layers.empty() || layers.back() != layer)
      layers.push_back(layer);
  std::vector<ParameterScale> scales;
  size_t at = 0;
  for (const Tensor& parameter : parameters) {
    const std::string& name = persistent_name(parameter);
    while (layers[at] != layer_of(name)) ++at;
    ParameterScale own;
    own.lr = std::pow(config.layer_decay, static_cast<double>(layers.size() - 1 - at));
    for (const GroupConfig& group : config.groups) {
      const bool belongs =
          group.kind == "vectors" ? parameter.shape().rank() <= 1 : is_part(name, group.part);
      if (!belongs) continue;
      own.lr *= group.lr;
      own.decay *= group.weight_decay;
    }
    scales.push_back(own);
  }
  return scales;
}

}  // namespace tessera
