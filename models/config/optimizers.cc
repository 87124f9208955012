#include "tessera/models/config/optimizers.h"

#include <algorithm>

#include "tessera/layers/adamw.h"
#include "tessera/layers/sgd.h"

namespace tessera {

namespace {

struct Entry {
  std::vector<ConfigKey> options;  // "momentum", into the configuration that the entry was made for
  std::unique_ptr<Optimizer> (*make)(const OptimizerConfig&, Store&);
};

template <class O, auto kParams>
std::unique_ptr<Optimizer> make(const OptimizerConfig& config, Store& store) {
  return std::make_unique<O>(store, store.parameters(), config.*kParams);
}

// clang-format off
Entry entry(OptimizerKind kind, OptimizerConfig& o) {
  const KeyRule decay = at_least(0, kMaxFloat), beta = from_below(0, 1);
  const char* decay_help = "pull of weights to zero";
  const char* vectors_help = "whether weight_decay is for biases and norms (one axis) too";
  const char* vector_lr_help = "factor of lr for biases and norms (one axis)";
  switch (kind) {
    case OptimizerKind::kSgd: return {{
        {"momentum", &o.sgd.momentum, from_below(0, 1), "sgd"},
        {"nesterov", &o.sgd.nesterov, any(), "sgd: look ahead"},
        {"weight_decay", &o.sgd.weight_decay, decay, decay_help},
        {"decay_vectors", &o.sgd.decay_vectors, any(), vectors_help},
        {"vector_lr", &o.sgd.vector_lr, decay, vector_lr_help}},
      make<Sgd, &OptimizerConfig::sgd>};
    case OptimizerKind::kAdamW: return {{
        {"beta1", &o.adamw.beta1, beta, "adamw: memory of the mean"},
        {"beta2", &o.adamw.beta2, beta, "adamw: memory of the square"},
        {"eps", &o.adamw.epsilon, at_least(kMinFloat, kMaxFloat), "adamw: keeps the divisor from zero"},
        {"weight_decay", &o.adamw.weight_decay, decay, decay_help},
        {"decay_vectors", &o.adamw.decay_vectors, any(), vectors_help},
        {"vector_lr", &o.adamw.vector_lr, decay, vector_lr_help}},
      make<AdamW, &OptimizerConfig::adamw>};
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

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Store& store) {
  OptimizerConfig copy = config;
  return entry(config.name, copy).make(config, store);
}

}  // namespace tessera
