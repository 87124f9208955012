// MobileNet v3 (Howard et al., "Searching for MobileNetV3", 2019), large and small: a stem that
// halves the image, inverted residual blocks (some with squeeze and excitation), a 1x1 convolution,
// global average pooling, and two linear layers with dropout between. Activations are relu in the
// first blocks and hard_swish in the others.
//
// Names: features.0.0 (the stem), features.1.block.0.0, ..., features.16.0, classifier.0,
// classifier.3, as in torchvision.
#include <fmt/format.h>

#include "tessera/models/zoo/inverted_residual.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

struct V3Block {
  int64_t kernel, wide, out;
  bool squeezes;
  Activation activation;
  int64_t stride;
};

// Tables 1 and 2 of the paper.
const std::vector<V3Block> kV3Large{
    {3, 16, 16, false, relu, 1},        {3, 64, 24, false, relu, 2},
    {3, 72, 24, false, relu, 1},        {5, 72, 40, true, relu, 2},
    {5, 120, 40, true, relu, 1},        {5, 120, 40, true, relu, 1},
    {3, 240, 80, false, hard_swish, 2}, {3, 200, 80, false, hard_swish, 1},
    {3, 184, 80, false, hard_swish, 1}, {3, 184, 80, false, hard_swish, 1},
    {3, 480, 112, true, hard_swish, 1}, {3, 672, 112, true, hard_swish, 1},
    {5, 672, 160, true, hard_swish, 2}, {5, 960, 160, true, hard_swish, 1},
    {5, 960, 160, true, hard_swish, 1}};
const std::vector<V3Block> kV3Small{
    {3, 16, 16, true, relu, 2},        {3, 72, 24, false, relu, 2},
    {3, 88, 24, false, relu, 1},       {5, 96, 40, true, hard_swish, 2},
    {5, 240, 40, true, hard_swish, 1}, {5, 240, 40, true, hard_swish, 1},
    {5, 120, 48, true, hard_swish, 1}, {5, 144, 48, true, hard_swish, 1},
    {5, 288, 96, true, hard_swish, 2}, {5, 576, 96, true, hard_swish, 1},
    {5, 576, 96, true, hard_swish, 1}};
constexpr int64_t kV3Stem = 16;
constexpr BatchNorm2d::Settings kV3Norm{.eps = 0.001, .momentum = 0.01};

void make_mobilenet_v3(NetworkBuilder& net, const ModelOptions& o, bool large) {
  int features = 0;
  const auto next = [&] { return fmt::format("features.{}", features++); };
  const auto unit = [&](const Conv2d::Settings& conv) {
    const std::string name = next();
    net.add<ConvNorm>(name + ".0", name + ".1", conv, hard_swish, kV3Norm);
  };
  unit({.in = o.channels, .out = kV3Stem, .kernel = 3, .stride = 2, .padding = 1});
  int64_t in = kV3Stem;
  for (const V3Block& block : large ? kV3Large : kV3Small) {
    const int64_t squeeze = block.squeezes ? multiple_of_8(static_cast<double>(block.wide / 4)) : 0;
    net.add<InvertedResidual>(next(), {.in = in,
                                       .wide = block.wide,
                                       .out = block.out,
                                       .kernel = block.kernel,
                                       .stride = block.stride,
                                       .squeeze = squeeze,
                                       .activation = block.activation,
                                       .gate = hard_sigmoid,
                                       .norm = kV3Norm});
    in = block.out;
  }
  unit({.in = in, .out = 6 * in, .kernel = 1});
  const int64_t hidden = large ? 1280 : 1024;
  net.apply(global_average_pool);
  net.add<Linear>("classifier.0", {.in = 6 * in, .out = hidden});
  net.apply(hard_swish);
  net.dropout("classifier.2", *o.dropout);
  net.add<Linear>("classifier.3", {.in = hidden, .out = o.classes});
}

Network mobilenet_v3_of(const char* size, bool large, std::vector<TimedAt> timed = {}) {
  return {fmt::format("mobilenet_v3_{}", size),
          {.dropout = 0.2},
          [large](NetworkBuilder& net, const ModelOptions& o) { make_mobilenet_v3(net, o, large); },
          {{"torchvision"}},
          std::move(timed)};
}

}  // namespace

Networks zoo::mobilenet_v3() {
  return {mobilenet_v3_of("small", false), mobilenet_v3_of("large", true, {{224, 16}})};
}

}  // namespace tessera
