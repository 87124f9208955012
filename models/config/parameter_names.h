// Parts of a network that configurations name: "layer1" is the parameter "layer1" and every
// parameter whose name begins with "layer1.".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/engine/store.h"
#include "tessera/layers/optimizers/optimizer_params.h"
#include "tessera/models/config/config.h"

namespace tessera {

// A key that names a part that the network lacks, or that leaves nothing to train.
struct UnknownPart {
  const char* key;   // "train.freeze"
  std::string text;  // includes the nearest name
};
std::optional<UnknownPart> find_unknown_part(const Config& config, const Tensors& parameters);

// Turns the parameters that train.freeze and train.freeze_all_but select into buffers. Throws
// ConfigError for an unknown part, and if nothing is left to train.
void freeze(const TrainConfig& config, Store& store);

// Returns the factors of each parameter by optimizer.groups and optimizer.layer_decay.
std::vector<ParameterScale> parameter_scales(const OptimizerConfig& config,
                                             const Tensors& parameters);

}  // namespace tessera
