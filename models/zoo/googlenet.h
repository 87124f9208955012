// GoogLeNet (Szegedy et al., "Going Deeper with Convolutions", 2014), with batch norm after every
// convolution and without the two classifiers on the way: a stem, nine blocks of four branches that
// are put side by side, global average pooling, dropout and a linear layer.
//
//   branches   conv 1x1;  conv 1x1, conv 3x3;  conv 1x1, conv 3x3;  max pool 3, conv 1x1
//
// The third branch has 3x3 where the paper has 5x5, as in the implementation whose weights are well
// known. Names: conv1.conv, conv1.bn, inception3a.branch2.0.conv, inception3a.branch4.1.bn, ...,
// fc.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class GoogLeNet final : public Module {
 public:
  struct Settings {
    int64_t channels = 3;
    double dropout = 0.2;
    int64_t classes = 1000;
  };
  GoogLeNet(Store& store, const Settings& settings);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::vector<std::unique_ptr<Module>> features_;
  std::unique_ptr<Dropout> drop_;  // none when its probability is 0
  std::unique_ptr<Linear> fc_;
};

}  // namespace tessera
