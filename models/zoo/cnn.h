// A small convolutional network with batch norm:
//
//   x [n, height, width, channels] -> for each width k: conv_k 3x3 padding 1, bn_k, relu, and a max
//     pool 2 after every second one -> flatten, dropout -> fc [n, classes]
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class CnnBn final : public Module {
 public:
  struct Settings {
    int64_t channels = 1;
    int64_t height = 28, width = 28;              // pixels
    std::vector<int64_t> widths{32, 32, 64, 64};  // filters of each convolution, one to four
    double dropout = 0;                           // before fc, in training
    int64_t classes = 10;
  };
  // Throws ConfigError when there are no widths or more than four, or the image is too small.
  CnnBn(Store& store, const Settings& settings);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::vector<std::unique_ptr<Conv2d>> convs_;       // "conv1", "conv2", ...
  std::vector<std::unique_ptr<BatchNorm2d>> norms_;  // "bn1", "bn2", ...
  std::unique_ptr<Linear> fc_;
  std::unique_ptr<Dropout> dropout_;  // "drop"; none when its probability is 0
};

}  // namespace tessera
