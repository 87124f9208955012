// The zoo: every network by the name that configurations use.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/layers/module.h"

namespace tessera {

// What the data and the configuration say about a network.
struct ModelOptions {
  int64_t height = 32, width = 32, channels = 3;  // of the images
  int64_t classes = 10;
  // Of the models that have them (model_options() tells); the model's own where nothing is given.
  std::optional<double> dropout = {};  // probability, in [0, 1)
  std::vector<int64_t> widths = {};    // mlp: hidden layers, cnn_bn: filters
  std::optional<int64_t> depth = {};   // wide_resnet, densenet_bc: 6 n + 4
  std::optional<int64_t> widen = {};   // wide_resnet: factor of the channels
  std::optional<int64_t> growth = {};  // densenet_bc: channels that a layer adds
  // efficientnet, convnext: probability that a sample goes around the last block, in [0, 1)
  std::optional<double> stochastic_depth = {};
};

// The network [n, height, width, channels] -> logits [n, classes]. Throws ConfigError: an unknown
// name (the message lists the known ones), an option that the network does not have or cannot mean.
std::unique_ptr<Module> make_model(std::string_view name, const ModelOptions& options,
                                   Store& store);

// Sorted as a person would.
const std::vector<std::string>& model_names();
// What may be chosen about a model, by the names that configurations use: "classes", "dropout", ...
// Empty for an unknown name.
const std::vector<std::string>& model_options(std::string_view name);

}  // namespace tessera
