// A trained network for Keras: its weights as a .weights.h5 of Keras 3, or in the form of before.
#pragma once

#include <string>

#include "tessera/models/run/trained_network.h"

namespace tessera {

enum class KerasForm {
  now,     // ".weights.h5"
  before,  // ".h5", which Keras 2 reads, and Keras 3 too
};

// As model.save_weights() of a network of the same layers in the same order writes them. `path` is
// the old file or the whole new one. Throws CheckpointError where it cannot be written.
void export_keras(const TrainedNetwork& trained, const std::string& path, KerasForm form);

}  // namespace tessera
