// Residual networks (He et al., "Deep Residual Learning for Image Recognition", 2015): a stem,
// stages of residual blocks of which all but the first stage halve the image, global average
// pooling and a linear layer.
//
//   basic        y = relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x))         two 3x3
//   bottleneck   y = relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))) + shortcut(x))
//                1x1, 3x3, 1x1 to four times the width; the 3x3 strides (the "v1.5" form)
//
// Names: conv1, bn1, layer1.0.conv1, layer1.0.bn1, ..., fc; a projection shortcut is
// layerS.0.downsample.0 (the 1x1 convolution) and .1 (its batch norm); squeeze and excitation (Hu
// et al. 2017), to a sixteenth of the channels, is layer1.0.se.fc1 and .fc2.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class ResNet final : public Module {
 public:
  enum class Block { kBasic, kBottleneck };
  enum class Stem {
    kSmall,  // conv 3x3: for images of CIFAR's size
    kLarge,  // conv 7x7 stride 2, max pool 3 stride 2: for ImageNet's
  };
  // How a block whose result has another shape than its input bridges that.
  enum class Shortcut {
    kPad,      // every second pixel, new channels are zeros on both sides ("option A")
    kProject,  // 1x1 convolution and batch norm ("option B")
  };
  struct Settings {
    Block block = Block::kBasic;
    Stem stem = Stem::kSmall;
    Shortcut shortcut = Shortcut::kPad;
    std::vector<int64_t> blocks{3, 3, 3};     // of each stage
    std::vector<int64_t> widths{16, 32, 64};  // channels of each stage (a quarter, bottleneck)
    bool squeezes = false;  // the residual goes through squeeze and excitation ("SE-ResNet")
    // In training, the probability that a sample goes around the last block; the first has 0,
    // between them a line (Huang et al. 2016).
    double stochastic_depth = 0;
    int64_t channels = 3;
    int64_t classes = 10;
  };
  ResNet(Store& store, const Settings& settings);

  // Of depth 20, 32, 44, 56, 110 (6 n + 2) for CIFAR: widths 16, 32, 64, option A.
  static Settings cifar(int depth);
  // Of depth 18, 34, 50, 101, 152 for ImageNet: widths 64, 128, 256, 512, projections.
  static Settings imagenet(int depth);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  Stem stem_;
  Conv2d conv1_;
  BatchNorm2d bn1_;
  std::vector<std::unique_ptr<Module>> blocks_;
  std::unique_ptr<Linear> fc_;
};

}  // namespace tessera
