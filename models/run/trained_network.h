// TrainedNetwork: the network of a run folder with its weights, without data.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/engine/store.h"
#include "tessera/layers/module.h"
#include "tessera/models/config/config.h"

namespace tessera {

struct TrainedNetwork {
  Config config;
  std::string weights;    // path of the weights file
  std::string inference;  // models/run/inference.h
  ImageShape image;
  Store store;
  std::unique_ptr<Module> network;
};

// Loads the final weights, or those of `checkpoint`: "best", "latest" or a file. The network is on
// the CPU. Throws ConfigError if the folder does not exist, CheckpointError.
std::unique_ptr<TrainedNetwork> trained_network(const std::string& run_dir,
                                                const std::string& checkpoint);

}  // namespace tessera
