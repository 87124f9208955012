// VGG (Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
// Recognition", 2014) with batch norm: five groups of 3x3 convolutions, each followed by batch norm
// and relu, a maximum pool 2 after each group, then fc 4096, fc 4096, fc classes with dropout.
//
// Names: features.N, where N also counts norms, relus and pools, and classifier.0, .3, .6, as in
// well-known implementations. The first fc takes what the last pool leaves of the image.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class Vgg final : public Module {
 public:
  struct Settings {
    std::vector<int64_t> convs{1, 1, 2, 2, 2};  // of each group, of 64, 128, 256, 512, 512 filters
    int64_t channels = 3;
    int64_t height = 224, width = 224;  // pixels, at least 32
    double dropout = 0.5;
    int64_t classes = 1000;
  };
  // Throws ConfigError when the image is too small or there are not five groups.
  Vgg(Store& store, const Settings& settings);

  // Of depth 11, 13, 16 or 19.
  static Settings of_depth(int depth);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::vector<int64_t> groups_;
  std::vector<std::unique_ptr<Conv2d>> convs_;
  std::vector<std::unique_ptr<BatchNorm2d>> norms_;
  std::unique_ptr<Dropout> drop1_, drop2_;
  std::unique_ptr<Linear> fc1_, fc2_, fc3_;
};

}  // namespace tessera
