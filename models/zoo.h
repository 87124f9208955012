// The zoo: every network by the name that configurations use.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/layers/module.h"

namespace tessera {

// What the data and the configuration say about a network.
struct ModelOptions {
  int64_t height = 32, width = 32, channels = 3;  // of the images
  int64_t classes = 10;
  double dropout = 0;                // probability, in [0, 1); mlp and cnn_bn
  std::vector<int64_t> widths = {};  // mlp: hidden layers, cnn_bn: filters; empty: the model's own
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
