// ConvNeXt (Liu et al., "A ConvNet for the 2020s", 2022): a stem that cuts the image in patches of
// 4x4, four stages of residual blocks, of which all but the first halve the image, global average
// pooling, layer norm and a linear layer.
//
//   block   x + layer_scale(fc2(gelu(fc1(norm(depthwise 7x7 (x))))))      norm: layer_norm
//
// Names: stem.0, stem.1, stages.0.blocks.0.conv_dw, .norm, .mlp.fc1, .mlp.fc2 (1x1 convolutions),
// .gamma, stages.1.downsample.0, ..., head.norm, head.fc, as in well-known implementations.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class ConvNext final : public Module {
 public:
  struct Settings {
    std::vector<int64_t> blocks{3, 3, 9, 3};         // of each stage
    std::vector<int64_t> widths{96, 192, 384, 768};  // channels of each
    double stochastic_depth = 0;  // of the last block; the first has 0, between a line
    int64_t channels = 3;
    int64_t classes = 1000;
  };
  ConvNext(Store& store, const Settings& settings);

  // "atto", "femto", "pico", "nano" or "tiny". Throws ConfigError for another one.
  static Settings of_size(const std::string& size);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::vector<std::unique_ptr<Module>> features_;
  std::unique_ptr<LayerNorm> head_norm_;
  std::unique_ptr<Linear> head_fc_;
};

}  // namespace tessera
