// The network that a configuration describes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/layers/module.h"
#include "tessera/models/config/config.h"
#include "tessera/models/config/diagnostics.h"
#include "tessera/models/data/dataset.h"

namespace tessera {

// For images of this shape. Throws ConfigError as make_model() and make_layered() do.
std::unique_ptr<Module> make_network(const Config& config, const ImageShape& image, Store& store);

// uint8 images as networks take them: (x / 255 - mean) / std.
Tensor normalized(const Tensor& images, const Normalization& normalization);

// The logits of uint8 images as evaluation has them: the mean of those of an image, with eval.flip
// of its mirror image, and with eval.shift of both moved by so many pixels either way.
Tensor evaluated_logits(const Config& config, const Module& network,
                        const Normalization& normalization, const Tensor& images);

// What is wrong with a network.
struct NetworkProblem {
  std::vector<const char*> keys;  // that may be at fault, the likeliest first
  std::string text;
  std::optional<SourceRange> range = {};  // of the layer, in a list of them; its text names the key
};

// Builds the network and follows the shape of an image through it, without any bytes: milliseconds
// even for the deepest. image: none where only the data can tell.
std::optional<NetworkProblem> find_network_problem(const Config& config,
                                                   const std::optional<ImageShape>& image);

}  // namespace tessera
