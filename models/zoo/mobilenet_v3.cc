#include "tessera/models/zoo/mobilenet_v3.h"

#include <fmt/format.h>

#include "tessera/layers/pool2d.h"
#include "tessera/models/zoo/conv_norm.h"
#include "tessera/models/zoo/inverted_residual.h"

namespace tessera {

namespace {

struct Block {
  int64_t kernel, wide, out;
  bool squeezes;
  Activation activation;
  int64_t stride;
};

// Tables 1 and 2 of the paper.
const std::vector<Block> kLarge{
    {3, 16, 16, false, relu, 1},        {3, 64, 24, false, relu, 2},
    {3, 72, 24, false, relu, 1},        {5, 72, 40, true, relu, 2},
    {5, 120, 40, true, relu, 1},        {5, 120, 40, true, relu, 1},
    {3, 240, 80, false, hard_swish, 2}, {3, 200, 80, false, hard_swish, 1},
    {3, 184, 80, false, hard_swish, 1}, {3, 184, 80, false, hard_swish, 1},
    {3, 480, 112, true, hard_swish, 1}, {3, 672, 112, true, hard_swish, 1},
    {5, 672, 160, true, hard_swish, 2}, {5, 960, 160, true, hard_swish, 1},
    {5, 960, 160, true, hard_swish, 1}};
const std::vector<Block> kSmall{
    {3, 16, 16, true, relu, 2},        {3, 72, 24, false, relu, 2},
    {3, 88, 24, false, relu, 1},       {5, 96, 40, true, hard_swish, 2},
    {5, 240, 40, true, hard_swish, 1}, {5, 240, 40, true, hard_swish, 1},
    {5, 120, 48, true, hard_swish, 1}, {5, 144, 48, true, hard_swish, 1},
    {5, 288, 96, true, hard_swish, 2}, {5, 576, 96, true, hard_swish, 1},
    {5, 576, 96, true, hard_swish, 1}};
constexpr int64_t kV3Stem = 16;
constexpr BatchNorm2d::Settings kV3Norm{.eps = 0.001, .momentum = 0.01};

}  // namespace

MobileNetV3::MobileNetV3(Store& store, const Settings& s) : Module("") {
  const auto unit = [&](const Conv2d::Settings& conv) {
    const std::string name = fmt::format("features.{}", features_.size());
    features_.push_back(
        std::make_unique<ConvNorm>(store, name + ".0", name + ".1", conv, hard_swish, kV3Norm));
  };
  unit({.in = s.channels, .out = kV3Stem, .kernel = 3, .stride = 2, .padding = 1});
  int64_t in = kV3Stem;
  for (const Block& block : s.large ? kLarge : kSmall) {
    const int64_t squeeze = block.squeezes ? multiple_of_8(static_cast<double>(block.wide / 4)) : 0;
    features_.push_back(std::make_unique<InvertedResidual>(
        store, fmt::format("features.{}", features_.size()),
        InvertedResidual::Settings{.in = in,
                                   .wide = block.wide,
                                   .out = block.out,
                                   .kernel = block.kernel,
                                   .stride = block.stride,
                                   .squeeze = squeeze,
                                   .activation = block.activation,
                                   .gate = hard_sigmoid,
                                   .norm = kV3Norm}));
    in = block.out;
  }
  unit({.in = in, .out = 6 * in, .kernel = 1});
  const int64_t hidden = s.large ? 1280 : 1024;
  classifier0_ = std::make_unique<Linear>(store, "classifier.0",
                                          Linear::Settings{.in = 6 * in, .out = hidden});
  if (s.dropout > 0) drop_ = std::make_unique<Dropout>("classifier.2", s.dropout);
  classifier3_ = std::make_unique<Linear>(store, "classifier.3",
                                          Linear::Settings{.in = hidden, .out = s.classes});
}

Tensor MobileNetV3::forward(const Tensor& x) const {
  Tensor y = hard_swish((*classifier0_)(global_average_pool(in_turn(features_, x))));
  if (drop_ != nullptr) y = (*drop_)(y);
  return (*classifier3_)(y);
}

}  // namespace tessera
