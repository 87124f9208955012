// MobileNet v3 (Howard et al., "Searching for MobileNetV3", 2019), large and small: a stem that
// halves the image, inverted residual blocks of which some weigh their channels, a 1x1 convolution,
// global average pooling, and two linear layers with dropout between. Activations are relu in the
// first blocks and hard_swish in the others.
//
// Names: features.0.0 (the stem), features.1.block.0.0, ..., features.16.0, classifier.0,
// classifier.3, as in well-known implementations.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class MobileNetV3 final : public Module {
 public:
  struct Settings {
    bool large = true;
    int64_t channels = 3;
    double dropout = 0.2;
    int64_t classes = 1000;
  };
  MobileNetV3(Store& store, const Settings& settings);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::vector<std::unique_ptr<Module>> features_;
  std::unique_ptr<Linear> classifier0_, classifier3_;
  std::unique_ptr<Dropout> drop_;  // none when its probability is 0
};

}  // namespace tessera
