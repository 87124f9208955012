// EfficientNet (Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural
// Networks", 2019): a stem that halves the image, seven stages of inverted residual blocks with
// silu and squeeze and excitation, a 1x1 convolution, global average pooling, dropout and a linear
// layer. B1 and later are B0 with more channels and more blocks.
//
// Names: features.0.0 (the stem), features.1.0.block.0.0, ..., features.8.0, classifier.1, as in
// torchvision.
#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "tessera/models/zoo/inverted_residual.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

struct EfficientNetStage {
  int64_t expansion, kernel, stride, channels, blocks;
};

// Table 1 of the paper.
constexpr EfficientNetStage kEfficientNetStages[] = {
    {1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
    {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
constexpr int64_t kEfficientNetStem = 32;

// Factors of the channels and of the blocks.
struct EfficientNetScale {
  double width, depth;

  int64_t scaled(int64_t channels) const {
    return multiple_of_8(static_cast<double>(channels) * width);
  }
  int64_t count(const EfficientNetStage& stage) const {
    return static_cast<int64_t>(std::ceil(static_cast<double>(stage.blocks) * depth));
  }
};

void make_efficientnet(NetworkBuilder& net, const ModelOptions& o, const EfficientNetScale& s) {
  const auto unit = [&](const std::string& name, const Conv2d::Settings& conv) {
    net.add<ConvNorm>(name + ".0", name + ".1", conv, silu);
  };
  int64_t in = s.scaled(kEfficientNetStem), all = 0, made = 0;
  for (const EfficientNetStage& stage : kEfficientNetStages) all += s.count(stage);
  unit("features.0", {.in = o.channels, .out = in, .kernel = 3, .stride = 2, .padding = 1});
  int number = 0;
  for (const EfficientNetStage& stage : kEfficientNetStages) {
    ++number;
    for (int64_t i = 0; i < s.count(stage); ++i, ++made) {
      const int64_t out = s.scaled(stage.channels);
      net.add<InvertedResidual>(
          fmt::format("features.{}.{}", number, i),
          {.in = in,
           .wide = in * stage.expansion,
           .out = out,
           .kernel = stage.kernel,
           .stride = i == 0 ? stage.stride : 1,
           .squeeze = std::max<int64_t>(1, in / 4),
           .activation = silu,
           .squeeze_activation = silu,
           .stochastic_depth =
               *o.stochastic_depth * static_cast<double>(made) / static_cast<double>(all)});
      in = out;
    }
  }
  unit(fmt::format("features.{}", number + 1), {.in = in, .out = 4 * in, .kernel = 1});
  net.apply(global_average_pool);
  net.dropout("classifier.0", *o.dropout);
  net.add<Linear>("classifier.1", {.in = 4 * in, .out = o.classes});
}

// Adds timm's names. timm names the parts of a block, which are numbered here and in torchvision;
// the first stage, whose blocks do not expand, has other names.
void add_timm_names(NameTable& table, const EfficientNetScale& scale) {
  table.modules = {{"features.0.0", "conv_stem"},
                   {"features.0.1", "bn1"},
                   {"features.8.0", "conv_head"},
                   {"features.8.1", "bn2"},
                   {"classifier.1", "classifier"}};
  for (size_t stage = 0; stage < std::size(kEfficientNetStages); ++stage)
    for (int64_t i = 0; i < scale.count(kEfficientNetStages[stage]); ++i) {
      const auto part = [&](const std::string& ours, const char* theirs) {
        table.modules.emplace_back(fmt::format("features.{}.{}.block.{}", stage + 1, i, ours),
                                   fmt::format("blocks.{}.{}.{}", stage, i, theirs));
      };
      const bool widens = stage > 0;
      int at = 0;
      const auto unit = [&](const char* conv, const char* norm) {
        part(fmt::format("{}.0", at), conv);
        part(fmt::format("{}.1", at++), norm);
      };
      if (widens) unit("conv_pw", "bn1");
      unit("conv_dw", widens ? "bn2" : "bn1");
      part(fmt::format("{}.fc1", at), "se.conv_reduce");
      part(fmt::format("{}.fc2", at++), "se.conv_expand");
      unit(widens ? "conv_pwl" : "conv_pw", widens ? "bn3" : "bn2");
    }
}

Network efficientnet_of(int size, const EfficientNetScale& scale, double dropout, int image_size,
                        int resize, std::vector<TimedAt> timed = {}) {
  return {fmt::format("efficientnet_b{}", size),
          {.dropout = dropout, .stochastic_depth = 0.2},
          [scale](NetworkBuilder& net, const ModelOptions& o) { make_efficientnet(net, o, scale); },
          {{"torchvision"},
           {.program = "timm",
            .add_modules = [scale](NameTable& table) { add_timm_names(table, scale); }}},
          std::move(timed),
          {image_size, {}, {}, resize}};
}

}  // namespace

Networks zoo::efficientnet() {
  return {
      efficientnet_of(0, {1, 1}, 0.2, 224, 256, {{224, 16}}),
      efficientnet_of(1, {1, 1.1}, 0.2, 240, 256), efficientnet_of(2, {1.1, 1.2}, 0.3, 288, 288),
      efficientnet_of(3, {1.2, 1.4}, 0.3, 300, 320), efficientnet_of(4, {1.4, 1.8}, 0.4, 380, 384)};
}

}  // namespace tessera
