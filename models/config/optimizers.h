// The optimizers that configurations name: their options and how they are made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/layers/optimizer.h"
#include "tessera/models/config/config_keys.h"

namespace tessera {

// The options of all optimizers, as keys "optimizer.momentum", ... An option of several is one
// key, which reads as that of the optimizer that is chosen and writes those of all.
std::vector<ConfigKey> optimizer_keys(OptimizerConfig& config);
// The optimizers that have the option.
std::vector<std::string> optimizers_with(const std::string& option);

// Returns the learning rate of a configuration that gives none.
double usual_lr(Named<OptimizerKind> name);
// Returns that of all: "sgd 0.1, adamw 0.001, ...".
std::string usual_lrs();

// For all parameters of the store.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Store& store);

}  // namespace tessera
