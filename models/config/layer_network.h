// Builds the network that a list of layers describes (models/config/config.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/layers/module.h"
#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"

namespace tessera {

// An error in a layer, with the layer's position.
class LayerError : public ConfigErrors {
 public:
  LayerError(const SourceRange& range, const std::string& text);
  const SourceRange& range() const { return place_; }
  const std::string& text() const { return text_; }

 private:
  SourceRange place_;
  std::string text_;
};

// Builds the network. Throws LayerError if a layer does not accept its input, or if the last layer
// does not return [n, classes].
std::unique_ptr<Module> make_layered(const std::vector<LayerConfig>& layers,
                                     const ImageShape& image, int64_t classes, Store& store);

}  // namespace tessera
