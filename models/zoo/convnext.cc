// ConvNeXt (Liu et al., "A ConvNet for the 2020s", 2022): a stem that cuts the image into patches
// of 4x4, four stages of residual blocks (all but the first halve the image), global average
// pooling, layer norm and a linear layer.
//
//   block   x + layer_scale(fc2(gelu(fc1(norm(depthwise 7x7 (x))))))      norm: layer_norm
//
// Names: stem.0, stem.1, stages.0.blocks.0.conv_dw, .norm, .mlp.fc1, .mlp.fc2 (1x1 convolutions),
// .gamma, stages.1.downsample.0, ..., head.norm, head.fc, as in timm.
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "tessera/layers/ops/dropout.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

constexpr int64_t kConvNextExpansion = 4;  // factor of the channels between fc1 and fc2
constexpr double kConvNextEps = 1e-6;      // eps of the layer norms

class ConvNextBlock final : public Module {
 public:
  ConvNextBlock(Store& store, std::string name, int64_t width, double stochastic_depth)
      : Module(std::move(name)),
        scale_(store, this->name(), {.channels = width}),
        conv_(store, part("conv_dw"),
              {.in = width, .out = width, .kernel = 7, .padding = 3, .groups = width}),
        norm_(store, part("norm"), {.features = width, .eps = kConvNextEps}),
        fc1_(store, part("mlp.fc1"), {.in = width, .out = kConvNextExpansion * width, .kernel = 1}),
        fc2_(store, part("mlp.fc2"), {.in = kConvNextExpansion * width, .out = width, .kernel = 1}),
        stochastic_depth_(stochastic_depth) {}

 private:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = scale_(fc2_(gelu(fc1_(norm_(conv_(x))))));
    return stochastic_depth(y, stochastic_depth_) + x;
  }

  LayerScale scale_;
  Conv2d conv_;
  LayerNorm norm_;
  Conv2d fc1_, fc2_;
  double stochastic_depth_;
};

struct ConvNextSettings {
  std::vector<int64_t> blocks;  // per stage
  std::vector<int64_t> widths;  // channels per stage
};

void make_convnext(const ConvNextSettings& s, NetworkBuilder& net, const ModelOptions& o) {
  net.add<Conv2d>("stem.0", {.in = o.channels, .out = s.widths[0], .kernel = 4, .stride = 4});
  net.add<LayerNorm>("stem.1", {.features = s.widths[0], .eps = kConvNextEps});
  const int64_t all = std::accumulate(s.blocks.begin(), s.blocks.end(), int64_t{0});
  int64_t in = s.widths[0], made = 0;
  for (size_t stage = 0; stage < s.blocks.size(); ++stage) {
    const std::string name = fmt::format("stages.{}", stage);
    if (stage > 0) {
      net.add<LayerNorm>(name + ".downsample.0", {.features = in, .eps = kConvNextEps});
      net.add<Conv2d>(name + ".downsample.1",
                      {.in = in, .out = s.widths[stage], .kernel = 2, .stride = 2});
    }
    in = s.widths[stage];
    for (int64_t i = 0; i < s.blocks[stage]; ++i, ++made)
      net.add<ConvNextBlock>(
          fmt::format("{}.blocks.{}", name, i), in,
          *o.stochastic_depth * static_cast<double>(made) / static_cast<double>(all - 1));
  }
  net.apply(global_average_pool);
  net.add<LayerNorm>("head.norm", {.features = in, .eps = kConvNextEps});
  net.add<Linear>("head.fc", {.in = in, .out = o.classes});
}

Network convnext_of(const char* size, const ConvNextSettings& settings,
                    std::vector<TimedAt> timed = {}) {
  NameTable timm{"timm"};  // names are equal
  // Up to nano, timm has 1x1 convolutions in the mlp, as here; tiny has linear layers.
  if (size == std::string("tiny"))
    for (size_t stage = 0; stage < settings.blocks.size(); ++stage)
      for (int64_t i = 0; i < settings.blocks[stage]; ++i)
        timm.linear.push_back(fmt::format("stages.{}.blocks.{}.mlp", stage, i));
  return {fmt::format("convnext_{}", size),
          {.stochastic_depth = 0},
          std::bind_front(make_convnext, settings),
          {std::move(timm)},
          std::move(timed)};
}

}  // namespace

Networks zoo::convnext() {
  return {convnext_of("atto", {{2, 2, 6, 2}, {40, 80, 160, 320}}, {{224, 16}}),
          convnext_of("femto", {{2, 2, 6, 2}, {48, 96, 192, 384}}),
          convnext_of("pico", {{2, 2, 6, 2}, {64, 128, 256, 512}}),
          convnext_of("nano", {{2, 2, 8, 2}, {80, 160, 320, 640}}, {{224, 8}}),
          convnext_of("tiny", {{3, 3, 9, 3}, {96, 192, 384, 768}})};
}

}  // namespace tessera
