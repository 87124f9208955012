#include "tessera/models/config/optimizers.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/layers/optimizers/adamw.h"
#include "tessera/layers/optimizers/lamb.h"
#include "tessera/layers/optimizers/lars.h"
#include "tessera/layers/optimizers/lion.h"
#include "tessera/layers/optimizers/muon.h"
#include "tessera/layers/optimizers/rmsprop.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/spelling.h"
#include "tessera/runtime/text/utf8.h"

namespace tessera {

namespace {

struct Entry {
  const char* name;
  double lr;  // default: PyTorch's; lion and lamb: timm's; sgd and lars: Tessera's
  std::vector<std::string> options;  // in addition to weight_decay, decay_vectors, vector_lr
  std::unique_ptr<Optimizer> (*make)(const OptimizerConfig& config, Store& store);
};

template <class O, class Params>
std::unique_ptr<Optimizer> make(Params params, const OptimizerConfig& config, Store& store) {
  params.weight_decay = config.weight_decay;
  params.decay_vectors = config.decay_vectors;
  params.vector_lr = config.vector_lr;
  return std::make_unique<O>(store, store.parameters(), params);
}

// clang-format off
const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
    {"sgd", 0.1, {"momentum", "nesterov"}, [](const OptimizerConfig& o, Store& store) {
      return make<Sgd, SgdParams>({.momentum = o.momentum, .nesterov = o.nesterov}, o, store); }},
    {"adamw", 1e-3, {"beta1", "beta2", "eps"}, [](const OptimizerConfig& o, Store& store) {
      return make<AdamW, AdamWParams>({.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.eps}, o, store); }},
    {"adam", 1e-3, {"beta1", "beta2", "eps"}, [](const OptimizerConfig& o, Store& store) {
      return make<AdamW, AdamWParams>({.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.eps, .coupled = true}, o, store); }},
    {"rmsprop", 1e-2, {"alpha", "eps", "eps_in_root", "momentum"}, [](const OptimizerConfig& o, Store& store) {
      return make<Rmsprop, RmspropParams>({.alpha = o.alpha, .epsilon = o.eps, .momentum = o.momentum, .eps_in_root = o.eps_in_root}, o, store); }},
    {"lion", 1e-4, {"beta1", "beta2"}, [](const OptimizerConfig& o, Store& store) {
      return make<Lion, LionParams>({.beta1 = o.beta1, .beta2 = o.beta2}, o, store); }},
    {"lamb", 1e-3, {"beta1", "beta2", "eps"}, [](const OptimizerConfig& o, Store& store) {
      return make<Lamb, LambParams>({.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.eps}, o, store); }},
    {"lars", 0.1, {"momentum", "nesterov", "trust_coefficient", "eps"}, [](const OptimizerConfig& o, Store& store) {
      return make<Lars, LarsParams>({.momentum = o.momentum, .nesterov = o.nesterov, .trust_coefficient = o.trust_coefficient, .epsilon = o.eps}, o, store); }},
    {"muon", 1e-3, {"momentum", "nesterov", "ns_steps", "match_adamw", "beta1", "beta2", "eps"}, [](const OptimizerConfig& o, Store& store) {
      return make<Muon, MuonParams>({.momentum = o.momentum, .nesterov = o.nesterov, .steps = o.ns_steps, .match_adamw = o.match_adamw,
                                     .beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.eps}, o, store); }},
  };
  return all;
}
// clang-format on

const Entry& entry(const std::string& name) {
  for (const Entry& entry : entries())
    if (entry.name == name) return entry;
  throw ConfigError("optimizer.name: " + unknown_name(name, optimizer_names()));
}

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

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> optimizers_with(const std::string& option) {
  std::vector<std::string> names;
  for (const Entry& entry : entries())
    if (std::ranges::count(entry.options, option) > 0) names.emplace_back(entry.name);
  return names;
}

double usual_lr(const std::string& optimizer) { return entry(optimizer).lr; }

std::string usual_lrs() {
  std::string text;
  for (const Entry& entry : entries())
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", entry.name, entry.lr);
  return text;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Store& store) {
  std::unique_ptr<Optimizer> optimizer = entry(config.name).make(config, store);
  optimizer->set_scales(parameter_scales(config, store.parameters()));
  return optimizer;
}

std::optional<UnknownPart> find_unknown_part(const Config& config, const Tensors& parameters) {
  const std::vector<std::string> parts = parts_of(parameters);
  const auto is_known = [&](const std::string& part) {
    return std::ranges::count(parts, part) > 0;
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
