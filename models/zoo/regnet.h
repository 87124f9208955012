// RegNetY (Radosavovic et al., "Designing Network Design Spaces", 2020): a stem and four stages
// that each halve the image, global average pooling and a linear layer.
//
//   block   relu(norm(conv 1x1 (squeeze_excitation(b(a(x))))) + x)
//   a       relu(norm(conv 1x1))      b   relu(norm(conv 3x3 in groups))
//
// Squeeze and excitation goes to a quarter of the channels that the block is given. Names: stem.0,
// stem.1, trunk_output.block1.block1-0.proj.0, .f.a.0, .f.b.0, .f.se.fc1, .f.c.0, ..., fc, as in
// well-known implementations.
#pragma once

#include <memory>
#include <vector>

#include "tessera/layers/modules.h"

namespace tessera {

class RegNetY final : public Module {
 public:
  struct Settings {
    std::vector<int64_t> blocks{1, 3, 6, 6};         // of each stage
    std::vector<int64_t> widths{48, 104, 208, 440};  // channels of each
    int64_t group = 8;                               // channels of a group of the 3x3 convolutions
    int64_t channels = 3;
    int64_t classes = 1000;
  };
  RegNetY(Store& store, const Settings& settings);

  // "400mf", "800mf", "1_6gf" or "3_2gf". Throws ConfigError for another one.
  static Settings of_size(const std::string& size);

 protected:
  Tensor forward(const Tensor& x) const override;

 private:
  std::unique_ptr<Module> stem_;
  std::vector<std::unique_ptr<Module>> blocks_;
  std::unique_ptr<Linear> fc_;
};

}  // namespace tessera
