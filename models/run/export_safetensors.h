// A trained network for PyTorch: its weights as safetensors.
#pragma once

#include <string>

#include "tessera/models/run/trained_network.h"

namespace tessera {

// Parameters and running statistics in PyTorch's order of dimensions, under torchvision's names
// where the network is torchvision's, else under our paths with PyTorch's last parts. `path` is the
// old file or the whole new one at any moment. Throws CheckpointError where it cannot be written.
// Returns whose names they are: "torchvision's resnet50", "our own".
std::string export_safetensors(const TrainedNetwork& trained, const std::string& path);

}  // namespace tessera
