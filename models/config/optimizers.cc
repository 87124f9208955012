#include "tessera/models/config/optimizers.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/layers/optimizers/adamw.h"
#include "tessera/layers/optimizers/lamb.h"
#include "tessera/layers/optimizers/lars.h"
#include "tessera/layers/optimizers/lion.h"
#include "tessera/layers/optimizers/muon.h"
#include "tessera/layers/optimizers/rmsprop.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/models/config/parameter_names.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/spelling.h"

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

}  // namespace

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Entry& entry : entries()) list.emplace_back(entry.name);
    return list;
  }();
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

}  // namespace tessera
