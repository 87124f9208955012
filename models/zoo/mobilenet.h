// MobileNet v2 (Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018): a
// stem that halves the image, seventeen inverted residual blocks, a 1x1 convolution to 1280
// channels, global average pooling, dropout and a linear layer. A block widens, filters each
// channel and narrows again, without an activation at the end:
//
//   y = norm(conv 1x1 (relu6(norm(depthwise 3x3 (relu6(norm(conv 1x1 (x))))))))   (+ x when it
//   fits)
//
// Names: features.0.0 (the stem), features.1.conv.0.0, ..., features.18.0, classifier.1, as in
// well-known implementations; the number after a convolution's is that of its norm.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class MobileNetV2 final : public Module {
 public:
  struct Settings {
    int64_t channels = 3;
    double dropout = 0.2;
    int64_t classes = 1000;
  };
  MobileNetV2(Store& store, const Settings& settings);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::vector<std::unique_ptr<Module>> features_;
  std::unique_ptr<Dropout> drop_;  // none when its probability is 0
  std::unique_ptr<Linear> classifier_;
};

}  // namespace tessera
