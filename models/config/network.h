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

// An error in a layer of model.layers, with the layer's position.
struct LayerError : ConfigErrors {
  LayerError(const SourceRange& range, const std::string& problem);
  const SourceRange range;
  const std::string text;  // names the key
};

// Builds the network that a list of layers describes. Throws LayerError if a layer does not accept
// its input, or if the last layer does not return [n, classes].
std::unique_ptr<Module> make_layered(const std::vector<LayerConfig>& layers,
                                     const ImageShape& image, int64_t classes, Store& store);

// Builds the network for images of this shape. Throws ConfigError like make_model() and
// make_layered().
std::unique_ptr<Module> make_network(const Config& config, const ImageShape& image, Store& store);

// Returns the logits of uint8 images in float32. The network receives (x / 255 - mean) / std in
// config.precision, which its activations take over.
Tensor network_logits(const Config& config, const Module& network,
                      const Normalization& normalization, const Tensor& images);

// Returns the evaluation logits of uint8 images: the mean over the views of each image that
// eval.flip and eval.shift add (EvalConfig).
Tensor evaluated_logits(const Config& config, const Module& network,
                        const Normalization& normalization, const Tensor& images);

// An error in a network.
struct NetworkProblem {
  std::vector<const char*> keys;  // possible causes, the likeliest first
  std::string text;
  std::optional<SourceRange> range = {};  // position of a listed layer; `text` then names the key
};

// Builds the network and infers the shapes for one image, without tensor memory: in milliseconds
// even for the deepest network. `image` is empty if only the data defines the shape.
std::optional<NetworkProblem> find_network_problem(const Config& config,
                                                   const std::optional<ImageShape>& image);

}  // namespace tessera
