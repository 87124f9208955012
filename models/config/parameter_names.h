// Parts of a network that configurations name: "layer1" is every parameter whose name is that or
// begins with "layer1.".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/engine/store.h"
#include "tessera/layers/optimizers/optimizer_params.h"
#include "tessera/models/config/config.h"

namespace tessera {

// What a key names that the network does not have, or where nothing is left to train.
struct UnknownPart {
  const char* key;   // "train.freeze"
  std::string text;  // with the nearest name
};
std::optional<UnknownPart> find_unknown_part(const Config& config, const Tensors& parameters);

// Makes buffers of the parameters that train.freeze and train.freeze_all_but say. Throws
// ConfigError for a part that is not there, and where nothing is left to train.
void freeze(const TrainConfig& config, Store& store);

// What optimizer.groups and optimizer.layer_decay make of each parameter.
std::vector<ParameterScale> parameter_scales(const OptimizerConfig& config,
                                             const Tensors& parameters);

}  // namespace tessera
