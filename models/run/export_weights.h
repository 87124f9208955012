// Exports the weights of a trained network to PyTorch and Keras.
#pragma once

#include <string>

#include "tessera/models/run/trained_network.h"

namespace tessera {

// Writes parameters and running statistics as safetensors for PyTorch, in PyTorch's dimension
// order. Names are torchvision's for a network of torchvision, else module paths with PyTorch's
// last parts. `path` is the old or the complete new file at any time. Returns the origin of the
// names: "torchvision's resnet50", "our own". Throws CheckpointError if `path` cannot be written.
std::string export_safetensors(const TrainedNetwork& trained, const std::string& path);

enum class KerasForm {
  now,     // ".weights.h5"
  before,  // ".h5", which Keras 2 and 3 read
};

// Writes weights as Keras's model.save_weights() does for the same layers in the same order. `path`
// is the old or the complete new file. Throws CheckpointError if `path` cannot be written.
void export_keras(const TrainedNetwork& trained, const std::string& path, KerasForm form);

}  // namespace tessera
