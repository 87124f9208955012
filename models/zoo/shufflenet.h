// ShuffleNet v2 (Ma et al., "ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture
// Design", 2018): a stem that quarters the image, three stages, a 1x1 convolution, global average
// pooling and a linear layer. A block works on half of the channels, hands on the other, and then
// lets the channels of both take turns; the first of a stage halves the image and works on all of
// them twice:
//
//   branch   relu(norm(conv 1x1 (norm(depthwise 3x3 (relu(norm(conv 1x1 (x))))))))
//
// Names: conv1.0, stage2.0.branch1.0, stage2.0.branch2.0, ..., conv5.0, fc, as in well-known
// implementations; the number after a convolution's is that of its norm.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class ShuffleNetV2 final : public Module {
 public:
  struct Settings {
    std::vector<int64_t> widths{116, 232, 464};  // channels of each stage, even
    int64_t last = 1024;                         // of the 1x1 convolution at the end
    int64_t channels = 3;
    int64_t classes = 1000;
  };
  ShuffleNetV2(Store& store, const Settings& settings);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::unique_ptr<Module> conv1_, conv5_;
  std::vector<std::unique_ptr<Module>> blocks_;
  std::unique_ptr<Linear> fc_;
};

}  // namespace tessera
