// The optimizers of configurations, and the parts of a network that configurations name: "layer1"
// is the parameter "layer1" and every parameter whose name begins with "layer1.".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/config/config.h"

namespace tessera {

std::vector<std::string> optimizer_names();
// Returns the optimizers that have the option: those with "beta1" read optimizer.beta1.
std::vector<std::string> optimizers_with(const std::string& option);

// Returns the learning rate of a configuration that gives none.
double usual_lr(const std::string& optimizer);
// Returns usual_lr() of all optimizers: "sgd 0.1, adamw 0.001, ...".
std::string usual_lrs();

// Returns the optimizer for all parameters of the store.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Store& store);

// Returns the factors of each parameter by optimizer.groups and optimizer.layer_decay.
std::vector<ParameterScale> parameter_scales(const OptimizerConfig& config,
                                             const Tensors& parameters);

// A key that names a part that the network lacks, or that leaves nothing to train.
struct UnknownPart {
  const char* key;   // "train.freeze"
  std::string text;  // includes the nearest name
};
std::optional<UnknownPart> find_unknown_part(const Config& config, const Tensors& parameters);

// Turns the parameters that train.freeze and train.freeze_all_but select into buffers. Throws
// ConfigError for an unknown part, and if nothing is left to train.
void freeze(const TrainConfig& config, Store& store);

}  // namespace tessera
