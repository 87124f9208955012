// The optimizers of configurations: their names, options and construction.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/layers/optimizers/optimizer.h"
#include "tessera/models/config/config.h"

namespace tessera {

const std::vector<std::string>& optimizer_names();
// Returns the optimizers that have the option: those with "beta1" read optimizer.beta1.
std::vector<std::string> optimizers_with(const std::string& option);

// Returns the learning rate of a configuration that gives none.
double usual_lr(const std::string& optimizer);
// Returns usual_lr() of all optimizers: "sgd 0.1, adamw 0.001, ...".
std::string usual_lrs();

// Returns the optimizer for all parameters of the store.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, Store& store);

}  // namespace tessera
