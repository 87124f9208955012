// A trained network for Keras 3: its weights as a .weights.h5.
#pragma once

#include <string>

#include "tessera/models/run/trained_network.h"

namespace tessera {

// As model.save_weights() of a network of the same layers in the same order writes them. `path` is
// the old file or the whole new one. Throws CheckpointError where it cannot be written.
void export_keras(const TrainedNetwork& trained, const std::string& path);

}  // namespace tessera
