// Makes the network that a list of layers describes (models/config/config.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/layers/module.h"
#include "tessera/models/config/config.h"
#include "tessera/models/data/dataset.h"

namespace tessera {

// What is wrong with a layer, at its place.
class LayerError : public ConfigErrors {
 public:
  LayerError(const SourceRange& range, const std::string& text);
  const SourceRange& range() const { return place_; }
  const std::string& text() const { return text_; }

 private:
  SourceRange place_;
  std::string text_;
};

// Throws LayerError: a layer that cannot take what comes before it, or the wrong shape at the end.
std::unique_ptr<Module> make_layered(const std::vector<LayerConfig>& layers,
                                     const ImageShape& image, int64_t classes, Store& store);

}  // namespace tessera
