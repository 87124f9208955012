// EfficientNet (Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural
// Networks", 2019): a stem that halves the image, seven stages of inverted residual blocks with
// silu and squeeze and excitation, a 1x1 convolution, global average pooling, dropout and a linear
// layer. B1 and on are B0 with more channels and more blocks.
//
// Names: features.0.0 (the stem), features.1.0.block.0.0, ..., features.8.0, classifier.1, as in
// well-known implementations.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class EfficientNet final : public Module {
 public:
  struct Settings {
    double width = 1, depth = 1;  // factors of the channels and of the blocks
    int64_t channels = 3;
    double dropout = 0.2;
    double stochastic_depth = 0.2;  // of a block after the last; the first has 0, between a line
    int64_t classes = 1000;
  };
  EfficientNet(Store& store, const Settings& settings);

  // B0 to B4. Throws ConfigError for another one.
  static Settings of_size(int size);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::vector<std::unique_ptr<Module>> features_;
  std::unique_ptr<Dropout> drop_;  // none when its probability is 0
  std::unique_ptr<Linear> classifier_;
};

}  // namespace tessera
