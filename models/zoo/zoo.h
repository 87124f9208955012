// The zoo: every network by the name that configurations use.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/layers/module.h"

namespace tessera {

// The settings of a network from the data and the configuration.
struct ModelOptions {
  int64_t height = 32, width = 32, channels = 3;  // shape of the images
  int64_t classes = 10;
  // Options of some networks (see model_options()); the network's own value unless given.
  std::optional<double> dropout = {};  // probability, in [0, 1)
  std::vector<int64_t> widths = {};    // units or filters of each layer
  std::optional<int64_t> depth = {};   // 6 n + 4
  std::optional<int64_t> widen = {};   // factor of the channels
  std::optional<int64_t> growth = {};  // channels that a layer adds
  // Probability that a sample skips the last block, in [0, 1).
  std::optional<double> stochastic_depth = {};
};

// Builds the network [n, height, width, channels] -> logits [n, classes]. Throws ConfigError: an
// unknown name (the message lists the known ones), an option that the network does not have, or an
// invalid value.
std::unique_ptr<Module> make_model(std::string_view name, const ModelOptions& options,
                                   Store& store);

// Returns all names, grouped by family.
const std::vector<std::string>& model_names();
// Returns the options of a model, by their names in configurations: "classes", "dropout", ... Empty
// for an unknown name.
std::vector<std::string> model_options(std::string_view name);
// The images that the published weights of a network expect.
struct PublishedInput {
  int image_size = 0;             // pixels a side; 0: there are no published weights
  std::vector<double> mean, std;  // for pixels / 255; empty: ImageNet's
  int resize = 256;               // pixels of the short side before the crop
};
PublishedInput published_input(std::string_view name);
// Returns the families of networks that have the option: "mlp, cnn_bn".
std::string families_with(std::string_view option);

}  // namespace tessera
