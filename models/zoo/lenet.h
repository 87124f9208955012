// LeNet-5 in its modern form (LeCun et al. 1998, with relu and maximum pooling):
//
//   x [n, height, width, channels] -> conv1 6@5x5 padding 2, relu, max pool 2
//     -> conv2 16@5x5, relu, max pool 2 -> fc1 120, relu -> fc2 84, relu -> fc3 [n, classes]
#pragma once

#include "tessera/layers/modules.h"

namespace tessera {

class LeNet5 final : public Module {
 public:
  struct Settings {
    int64_t channels = 1;
    int64_t height = 28, width = 28;  // pixels, at least 12
    int64_t classes = 10;
  };
  // Throws ConfigError when the image is too small.
  LeNet5(Store& store, const Settings& settings);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  Conv2d conv1_, conv2_;
  Linear fc1_, fc2_, fc3_;
};

}  // namespace tessera
