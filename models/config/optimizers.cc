#include "tessera/models/config/optimizers.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/layers/adamw.h"
#include "tessera/layers/lamb.h"
#include "tessera/layers/lars.h"
#include "tessera/layers/lion.h"
#include "tessera/layers/muon.h"
#include "tessera/layers/rmsprop.h"
#include "tessera/layers/sgd.h"
#include "tessera/models/config/parameter_names.h"

namespace tessera {

namespace {

struct Entry {
  std::vector<ConfigKey> options;  // "momentum", into the configuration that the entry was made for
  std::unique_ptr<Optimizer> (*make)(const OptimizerConfig&, Store&);
  double lr;  // unless given: PyTorch's default, of lion and lamb timm's; of sgd and lars our own
};

template <class O, auto kParams>
std::unique_ptr<Optimizer> make(const OptimizerConfig& config, Store& store) {
  return std::make_unique<O>(store, store.parameters(), config.*kParams);
}

// What all have, behind their own.
template <class Params>
std::vector<ConfigKey> with_decay(std::vector<ConfigKey> own, Params& params) {
  const KeyRule rule = at_least(0, kMaxFloat);
  own.push_back({"weight_decay", &params.weight_decay, rule, "pull of weights to zero"});
  own.push_back({"decay_vectors", &params.decay_vectors, any(),
                 "whether weight_decay is for biases and norms (one axis) too"});
  own.push_back(
      {"vector_lr", &params.vector_lr, rule, "factor of lr for biases and norms (one axis)"});
  return own;
}

// clang-format off
Entry entry(OptimizerKind kind, OptimizerConfig& o) {
  const KeyRule beta = from_below(0, 1), size = at_least(kMinFloat, kMaxFloat);
  const char* momentum = "sgd, rmsprop, lars; muon, usually 0.95";
  const char* nesterov = "sgd, lars; muon, usually true: look ahead";
  const char* beta1 = "adamw, adam, lamb, lion; vectors of muon: memory of the mean";
  const char* beta2 = "adamw, adam, lamb; vectors of muon: memory of the square; lion, usually 0.99: of the mean";
  const char* eps = "adamw, adam, lamb (usually 1e-6), rmsprop, lars; vectors of muon: keeps the divisor from zero";
  switch (kind) {
    case OptimizerKind::kSgd: return {with_decay({
        {"momentum", &o.sgd.momentum, beta, momentum},
        {"nesterov", &o.sgd.nesterov, any(), nesterov}}, o.sgd),
      make<Sgd, &OptimizerConfig::sgd>, 0.1};
    case OptimizerKind::kAdamW: return {with_decay({
        {"beta1", &o.adamw.beta1, beta, beta1},
        {"beta2", &o.adamw.beta2, beta, beta2},
        {"eps", &o.adamw.epsilon, size, eps}}, o.adamw),
      make<AdamW, &OptimizerConfig::adamw>, 1e-3};
    case OptimizerKind::kAdam: return {with_decay({
        {"beta1", &o.adam.beta1, beta, beta1},
        {"beta2", &o.adam.beta2, beta, beta2},
        {"eps", &o.adam.epsilon, size, eps}}, o.adam),
      make<AdamW, &OptimizerConfig::adam>, 1e-3};
    case OptimizerKind::kRmsprop: return {with_decay({
        {"alpha", &o.rmsprop.alpha, beta, "rmsprop: memory of the square"},
        {"eps", &o.rmsprop.epsilon, size, eps},
        {"eps_in_root", &o.rmsprop.eps_in_root, any(), "rmsprop: as TensorFlow and timm's rmsproptf: sqrt(square + eps), squares that start at 1, momentum of steps"},
        {"momentum", &o.rmsprop.momentum, beta, momentum}}, o.rmsprop),
      make<Rmsprop, &OptimizerConfig::rmsprop>, 1e-2};
    case OptimizerKind::kLion: return {with_decay({
        {"beta1", &o.lion.beta1, beta, beta1},
        {"beta2", &o.lion.beta2, beta, beta2}}, o.lion),
      make<Lion, &OptimizerConfig::lion>, 1e-4};
    case OptimizerKind::kLamb: return {with_decay({
        {"beta1", &o.lamb.beta1, beta, beta1},
        {"beta2", &o.lamb.beta2, beta, beta2},
        {"eps", &o.lamb.epsilon, size, eps}}, o.lamb),
      make<Lamb, &OptimizerConfig::lamb>, 1e-3};
    case OptimizerKind::kLars: return {with_decay({
        {"momentum", &o.lars.momentum, beta, momentum},
        {"nesterov", &o.lars.nesterov, any(), nesterov},
        {"trust", &o.lars.trust, size, "lars: length of a step, as a part of the parameter's"},
        {"eps", &o.lars.epsilon, size, eps}}, o.lars),
      make<Lars, &OptimizerConfig::lars>, 0.1};
    case OptimizerKind::kMuon: return {with_decay({
        {"momentum", &o.muon.momentum, beta, momentum},
        {"nesterov", &o.muon.nesterov, any(), nesterov},
        {"ns_steps", &o.muon.steps, at_least(1, 100), "muon: of Newton and Schulz"},
        {"match_adamw", &o.muon.match_adamw, any(), "muon: steps as large as AdamW's, so that its lr fits"},
        {"beta1", &o.muon.beta1, beta, beta1},
        {"beta2", &o.muon.beta2, beta, beta2},
        {"eps", &o.muon.epsilon, size, eps}}, o.muon),
      make<Muon, &OptimizerConfig::muon>, 1e-3};
  }
  return {};
}
// clang-format on

std::vector<ConfigKey> options_of(const std::string& name, OptimizerConfig& config) {
  Named<OptimizerKind> kind = config.name;
  kind.set(name);
  return entry(kind, config).options;
}

}  // namespace

std::vector<ConfigKey> optimizer_keys(OptimizerConfig& config) {
  std::vector<ConfigKey> keys;
  for (const std::string& name : names_of<OptimizerKind>()) {
    for (ConfigKey& option : options_of(name, config)) {
      option.path = "optimizer." + option.path;
      const auto known = std::find_if(
          keys.begin(), keys.end(), [&](const ConfigKey& key) { return key.path == option.path; });
      if (known == keys.end()) {
        keys.push_back(std::move(option));
      } else {
        known->copies.push_back(option.target);
        if (name == config.name.text()) std::swap(known->target, known->copies.back());
      }
    }
  }
  return keys;
}

std::vector<std::string> optimizers_with(const std::string& option) {
  OptimizerConfig config;
  std::vector<std::string> names;
  for (const std::string& name : names_of<OptimizerKind>())
    for (const ConfigKey& known : options_of(name, config))
      if (known.path == option) names.push_back(name);
  return names;
}

double usual_lr(Named<OptimizerKind> name) {
  OptimizerConfig config;
  return entry(name, config).lr;
}

std::string usual_lrs() {
  std::string text;
  for (const std::string& name : names_of<OptimizerKind>()) {
    Named<OptimizerKind> kind = OptimizerKind::kSgd;
    kind.set(name);
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, usual_lr(kind));
  }
  return text;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Store& store) {
  OptimizerConfig copy = config;
  std::unique_ptr<Optimizer> optimizer = entry(config.name, copy).make(config, store);
  optimizer->set_scales(parameter_scales(config, store.parameters()));
  return optimizer;
}

}  // namespace tessera
