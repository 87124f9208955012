// AlexNet (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014: the
// form of one column):
//
//   conv 11x11 stride 4 to 64, pool; conv 5x5 to 192, pool; conv 3x3 to 384, 256, 256, pool;
//   dropout, fc 4096, dropout, fc 4096, fc classes; every pool is a maximum 3 stride 2, relu after
//   every layer but the last
//
// Names: features.0, .3, .6, .8, .10 and classifier.1, .4, .6, as in well-known implementations.
// The images need not have 224 pixels: the first fc takes what the last pool leaves.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class AlexNet final : public Module {
 public:
  struct Settings {
    int64_t channels = 3;
    int64_t height = 224, width = 224;  // pixels
    double dropout = 0.5;
    int64_t classes = 1000;
  };
  // Throws ConfigError when the image is too small.
  AlexNet(Store& store, const Settings& settings);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::vector<std::unique_ptr<Conv2d>> convs_;
  std::unique_ptr<Dropout> drop1_, drop2_;
  std::unique_ptr<Linear> fc1_, fc2_, fc3_;
};

}  // namespace tessera
