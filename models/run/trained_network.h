// The network of a run folder with its weights, for what is written for other programs. It needs no
// data.
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
  std::string weights;    // the file they are from
  std::string inference;  // models/run/inference.h
  ImageShape image;
  Store store;
  std::unique_ptr<Module> network;
};

// The weights at the end of training, or with `checkpoint` those of one: "best", "latest" or a
// file. Stands on the CPU. Throws ConfigError where there is no such folder, CheckpointError.
std::unique_ptr<TrainedNetwork> trained_network(const std::string& run_dir,
                                                const std::string& checkpoint);

}  // namespace tessera
