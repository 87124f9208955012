// InvertedResidual: the block of MobileNet v3 and EfficientNet. It expands the channels, filters
// each of them, weights them and projects them back, without an activation at the end:
//
//   y = norm(conv 1x1 (squeeze_excitation(a(norm(depthwise(a(norm(conv 1x1 (x))))))))
//
// plus x if shapes agree. Names: block.0.0 (a convolution), block.0.1 (its norm), ..., block.2.fc1.
#pragma once

#include "tessera/layers/modules.h"

namespace tessera {

class InvertedResidual final : public Module {
 public:
  struct Settings {
    int64_t in = 0, wide = 0, out = 0;  // channels; no first convolution if wide == in
    int64_t kernel = 3, stride = 1;
    int64_t squeeze = 0;  // channels in the middle of squeeze and excitation; 0: none
    SqueezeExcitation::Function activation = relu, squeeze_activation = relu, gate = sigmoid;
    BatchNorm2d::Settings norm = {};
    double stochastic_depth = 0;  // probability that a sample skips the block
  };
  InvertedResidual(Store& store, std::string name, const Settings& settings);

 private:
  Tensor forward(const Tensor& x) const override;
  bool adds_;
  double stochastic_depth_;
  Sequential block_;
};

// Returns `channels` rounded to a multiple of 8, at least 8 and 0.9 `channels`.
int64_t multiple_of_8(double channels);

}  // namespace tessera
