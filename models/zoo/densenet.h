// Densely connected networks with bottlenecks and compression, "DenseNet-BC" (Huang et al., 2016):
// every layer of a block takes all that came before it and adds `growth` channels,
//
//   layer       y = concat(x, conv2 3x3 (relu(norm2(conv1 1x1 (relu(norm1(x)))))))
//   transition  average pool 2 (conv 1x1 to half the channels (relu(norm(x))))
//
// between the blocks, and at the end batch norm, relu, global average pooling, a linear layer.
//
// Names: features.conv0, features.norm0, features.denseblock1.denselayer1.norm1, ...,
// features.transition1.conv, features.norm5, classifier, as in well-known implementations.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class DenseNet final : public Module {
 public:
  struct Settings {
    std::vector<int64_t> blocks{6, 12, 24, 16};  // layers of each
    int64_t growth = 32;
    int64_t stem = 64;       // channels before the first block
    bool large_stem = true;  // conv 7x7 stride 2, norm, relu, max pool; else conv 3x3
    int64_t channels = 3;
    int64_t classes = 1000;
  };
  // Throws ConfigError when there are no blocks, or a number is below 1.
  DenseNet(Store& store, const Settings& settings);

  // For CIFAR: three blocks, depth 6 n + 4, a stem of twice the growth.
  static Settings cifar(int64_t depth, int64_t growth);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  bool large_stem_;
  std::unique_ptr<Conv2d> conv0_;
  std::unique_ptr<BatchNorm2d> norm0_, last_norm_;
  std::vector<std::unique_ptr<Module>> layers_;  // and transitions, in order
  std::unique_ptr<Linear> classifier_;
};

}  // namespace tessera
