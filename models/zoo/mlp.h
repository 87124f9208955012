// A multilayer perceptron: x [n, ...] is flattened, then fc1, relu, fc2, relu, ... and a last
// layer without relu: [n, classes].
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class Mlp final : public Module {
 public:
  struct Settings {
    int64_t in = 784;                       // elements of a sample
    std::vector<int64_t> hidden{256, 128};  // widths of the hidden layers; may be empty
    int64_t classes = 10;
    double dropout = 0;  // of each hidden layer's output, in training
  };
  Mlp(Store& store, const Settings& settings);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::vector<std::unique_ptr<Linear>> layers_;     // "fc1", "fc2", ...
  std::vector<std::unique_ptr<Dropout>> dropouts_;  // "drop1", "drop2", ...; empty: none
};

}  // namespace tessera
