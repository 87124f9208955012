// Wide residual networks (Zagoruyko and Komodakis, 2016) for images of CIFAR's size: conv 3x3 to
// 16, three stages of blocks with 16 k, 32 k, 64 k channels, of which the second and third halve
// the image, then batch norm, relu, global average pooling and a linear layer. A block acts before
// it convolves:
//
//   o = relu(bn1(x)),   y = conv2(dropout(relu(bn2(conv1(o))))) + shortcut
//
// the shortcut is x, or a 1x1 convolution of o where the shapes differ.
//
// Names: conv1, layer1.0.bn1, layer1.0.conv1, ..., layer1.0.shortcut, bn, fc.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class WideResNet final : public Module {
 public:
  struct Settings {
    int64_t depth = 28;  // 6 n + 4
    int64_t width = 10;  // k
    int64_t channels = 3;
    double dropout = 0;
    int64_t classes = 10;
  };
  // Throws ConfigError for a depth that is not 6 n + 4, a width below 1.
  WideResNet(Store& store, const Settings& settings);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::unique_ptr<Conv2d> conv1_;
  std::vector<std::unique_ptr<Module>> blocks_;
  std::unique_ptr<BatchNorm2d> bn_;
  std::unique_ptr<Linear> fc_;
};

}  // namespace tessera
