// The weights of a trained network for other programs: PyTorch and Keras.
#pragma once

#include <string>

#include "tessera/models/run/trained_network.h"

namespace tessera {

// For PyTorch, as safetensors: parameters and running statistics in PyTorch's order of dimensions,
// under torchvision's names where the network is torchvision's, else under our paths with PyTorch's
// last parts. `path` is the old file or the whole new one at any moment. Throws CheckpointError
// where it cannot be written. Returns whose names they are: "torchvision's resnet50", "our own".
std::string export_safetensors(const TrainedNetwork& trained, const std::string& path);

enum class KerasForm {
  now,     // ".weights.h5"
  before,  // ".h5", which Keras 2 reads, and Keras 3 too
};

// For Keras, as model.save_weights() of a network of the same layers in the same order writes them.
// `path` is the old file or the whole new one. Throws CheckpointError where it cannot be written.
void export_keras(const TrainedNetwork& trained, const std::string& path, KerasForm form);

}  // namespace tessera
