// Networks of inverted residual blocks: MobileNet v2, MobileNet v3 and EfficientNet. Each has a
// stem that halves the image, stages of blocks, a 1x1 convolution and global average pooling, then
// one or two linear layers with dropout. A block expands the channels, filters each of them,
// weights them if it squeezes and excites, and projects them back, without an activation at the
// end:
//
//   y = norm(conv 1x1 (squeeze_excitation(a(norm(depthwise(a(norm(conv 1x1 (x))))))))
//
// plus x if the shapes agree.
//
// Names as in torchvision: features.0.0 (the stem), features.1.block.0.0 (a convolution),
// features.1.block.0.1 (its norm), ..., features.1.block.2.fc1, ..., classifier.1. In v2
// features.1.conv.0.0, ..., features.1.conv.1, features.1.conv.2 (the last norm).
#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include <fmt/format.h>

#include "tessera/layers/ops/dropout.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

class InvertedResidual final : public Module {
 public:
  struct Settings {
    int64_t in = 0, wide = 0, out = 0;  // channels; no first convolution if wide == in
    int64_t kernel = 3, stride = 1;
    int64_t squeeze = 0;  // channels in the middle of squeeze and excitation; 0: none
    Activation activation = relu, squeeze_activation = relu, gate = sigmoid;
    BatchNorm2d::Settings norm = {};
    double stochastic_depth = 0;  // probability that a sample skips the block
    bool v2_names = false;
  };

  InvertedResidual(Store& store, std::string name, const Settings& s)
      : Module(std::move(name)),
        adds_(s.stride == 1 && s.in == s.out),
        stochastic_depth_(s.stochastic_depth) {
    const auto place = [&](size_t after = 0) {
      return part(
          fmt::format("{}.{}", s.v2_names ? "conv" : "block", block_.modules().size() + after));
    };
    const auto unit = [&](const Conv2d::Settings& conv, Activation activation) {
      const bool flat = s.v2_names && activation == nullptr;
      block_.add<ConvNorm>(store, flat ? place() : place() + ".0", flat ? place(1) : place() + ".1",
                           conv, activation, s.norm);
    };
    if (s.wide != s.in) unit({.in = s.in, .out = s.wide, .kernel = 1}, s.activation);
    unit({.in = s.wide,
          .out = s.wide,
          .kernel = s.kernel,
          .stride = s.stride,
          .padding = s.kernel / 2,
          .groups = s.wide},
         s.activation);
    if (s.squeeze > 0)
      block_.add<SqueezeExcitation>(store, place(),
                                    SqueezeExcitation::Settings{.channels = s.wide,
                                                                .squeeze = s.squeeze,
                                                                .activation = s.squeeze_activation,
                                                                .gate = s.gate});
    unit({.in = s.wide, .out = s.out, .kernel = 1}, nullptr);
  }

 private:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = block_(x);
    return adds_ ? stochastic_depth(y, stochastic_depth_) + x : y;
  }

  bool adds_;
  double stochastic_depth_;
  Sequential block_;
};

// Returns `channels` rounded to a multiple of 8, at least 8 and 0.9 `channels`.
int64_t multiple_of_8(double channels) {
  const int64_t nearest = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

// Numbers the features of a network, "features.N", and adds the first and the last.
class Features {
 public:
  // The stem and the last convolution have this activation and norm.
  Features(NetworkBuilder& net, Activation activation, const BatchNorm2d::Settings& norm = {})
      : net_(net), activation_(activation), norm_(norm) {}
  void stem(int64_t in, int64_t out) {
    unit({.in = in, .out = out, .kernel = 3, .stride = 2, .padding = 1});
  }
  // Returns the next name.
  std::string next() { return fmt::format("features.{}", count_++); }
  // Adds the last convolution and the pool.
  void finish(int64_t in, int64_t out) {
    unit({.in = in, .out = out, .kernel = 1});
    net_.apply(global_average_pool);
  }

 private:
  void unit(const Conv2d::Settings& conv) { net_.conv_norm(next(), conv, activation_, norm_); }

  NetworkBuilder& net_;
  const Activation activation_;
  const BatchNorm2d::Settings norm_;
  int count_ = 0;
};

// Adds dropout and the linear layer.
void add_classifier(NetworkBuilder& net, const ModelOptions& o, int64_t in) {
  net.dropout("classifier.0", *o.dropout);
  net.add<Linear>("classifier.1", {.in = in, .out = o.classes});
}

// Sets timm's names of what is outside of the blocks. `last`: the number of the last convolution.
void set_timm_ends(NameTable& table, int last) {
  table.modules = {{"features.0.0", "conv_stem"},
                   {"features.0.1", "bn1"},
                   {fmt::format("features.{}.0", last), "conv_head"},
                   {fmt::format("features.{}.1", last), "bn2"},
                   {"classifier.1", "classifier"}};
}

// Adds timm's names of the block `ours`. timm names the parts of a block, which are numbered here
// and in torchvision; the first stage, whose blocks do not expand, has other names.
void add_timm_block(NameTable& table, const std::string& ours, size_t stage, int64_t index,
                    bool v2_names) {
  const bool widens = stage > 0;
  int at = 0;
  const auto part = [&](const std::string& here, const char* there) {
    table.modules.emplace_back(fmt::format("{}.{}", ours, here),
                               fmt::format("blocks.{}.{}.{}", stage, index, there));
  };
  const auto unit = [&](const char* conv, const char* norm) {
    part(fmt::format("{}.0", at), conv);
    part(fmt::format("{}.1", at++), norm);
  };
  if (widens) unit("conv_pw", "bn1");
  unit("conv_dw", widens ? "bn2" : "bn1");
  const char *last = widens ? "conv_pwl" : "conv_pw", *last_norm = widens ? "bn3" : "bn2";
  if (v2_names) {
    part(fmt::format("{}", at), last);
    part(fmt::format("{}", at + 1), last_norm);
    return;
  }
  part(fmt::format("{}.fc1", at), "se.conv_reduce");
  part(fmt::format("{}.fc2", at++), "se.conv_expand");
  unit(last, last_norm);
}

// --- MobileNet v2: Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018

struct V2Stage {
  int64_t expansion, channels, blocks, stride;
};

constexpr V2Stage kV2Stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
constexpr int64_t kV2Stem = 32, kV2Last = 1280;

void make_mobilenet_v2(NetworkBuilder& net, const ModelOptions& o) {
  Features features(net, relu6);
  features.stem(o.channels, kV2Stem);
  int64_t in = kV2Stem;
  for (const V2Stage& stage : kV2Stages)
    for (int64_t i = 0; i < stage.blocks; ++i, in = stage.channels)
      net.add<InvertedResidual>(features.next(), {.in = in,
                                                  .wide = in * stage.expansion,
                                                  .out = stage.channels,
                                                  .stride = i == 0 ? stage.stride : 1,
                                                  .activation = relu6,
                                                  .v2_names = true});
  features.finish(in, kV2Last);
  add_classifier(net, o, kV2Last);
}

// Adds timm's names. timm numbers stages and blocks, which are one list here.
void add_timm_names_v2(NameTable& table) {
  set_timm_ends(table, 18);
  int ours = 1;
  for (size_t stage = 0; stage < std::size(kV2Stages); ++stage)
    for (int64_t i = 0; i < kV2Stages[stage].blocks; ++i, ++ours)
      add_timm_block(table, fmt::format("features.{}.conv", ours), stage, i, true);
}

// --- MobileNet v3: Howard et al., "Searching for MobileNetV3", 2019. Activations are relu in the
// first blocks and hard_swish in the others; the end is two linear layers.

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

void make_mobilenet_v3(bool large, NetworkBuilder& net, const ModelOptions& o) {
  Features features(net, hard_swish, kV3Norm);
  features.stem(o.channels, kV3Stem);
  int64_t in = kV3Stem;
  for (const V3Block& block : large ? kV3Large : kV3Small) {
    const int64_t squeeze = block.squeezes ? multiple_of_8(static_cast<double>(block.wide / 4)) : 0;
    net.add<InvertedResidual>(features.next(), {.in = in,
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
  features.finish(in, 6 * in);
  const int64_t hidden = large ? 1280 : 1024;
  net.add<Linear>("classifier.0", {.in = 6 * in, .out = hidden});
  net.apply(hard_swish);
  net.dropout("classifier.2", *o.dropout);
  net.add<Linear>("classifier.3", {.in = hidden, .out = o.classes});
}

// --- EfficientNet: Tan and Le, "EfficientNet: Rethinking Model Scaling for Convolutional Neural
// Networks", 2019. B1 and later are B0 with more channels and more blocks.

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

void make_efficientnet(const EfficientNetScale& s, NetworkBuilder& net, const ModelOptions& o) {
  int64_t in = s.scaled(kEfficientNetStem), all = 0, made = 0;
  for (const EfficientNetStage& stage : kEfficientNetStages) all += s.count(stage);
  Features features(net, silu);
  features.stem(o.channels, in);
  for (const EfficientNetStage& stage : kEfficientNetStages) {
    const std::string name = features.next();
    for (int64_t i = 0; i < s.count(stage); ++i, ++made) {
      const int64_t out = s.scaled(stage.channels);
      net.add<InvertedResidual>(
          fmt::format("{}.{}", name, i),
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
  features.finish(in, 4 * in);
  add_classifier(net, o, 4 * in);
}

void add_timm_names(NameTable& table, const EfficientNetScale& scale) {
  set_timm_ends(table, 8);
  for (size_t stage = 0; stage < std::size(kEfficientNetStages); ++stage)
    for (int64_t i = 0; i < scale.count(kEfficientNetStages[stage]); ++i)
      add_timm_block(table, fmt::format("features.{}.{}.block", stage + 1, i), stage, i, false);
}

Network efficientnet_of(int size, const EfficientNetScale& scale, double dropout, int image_size,
                        int resize, std::vector<TimedAt> timed = {}) {
  return {fmt::format("efficientnet_b{}", size),
          {.dropout = dropout, .stochastic_depth = 0.2},
          std::bind_front(make_efficientnet, scale),
          {{"torchvision"},
           {.program = "timm",
            .add_modules = [scale](NameTable& table) { add_timm_names(table, scale); }}},
          std::move(timed),
          {image_size, {}, {}, resize}};
}

}  // namespace

Networks zoo::mobilenet_v2() {
  return {{"mobilenet_v2",
           {.dropout = 0.2},
           make_mobilenet_v2,
           {{"torchvision"},
            {.program = "timm", .network = "mobilenetv2_100", .add_modules = add_timm_names_v2}},
           {{32, 128}, {224, 16}}}};
}

Networks zoo::mobilenet_v3() {
  const auto of = [](const char* size, bool large, std::vector<TimedAt> timed) -> Network {
    return {fmt::format("mobilenet_v3_{}", size),
            {.dropout = 0.2},
            std::bind_front(make_mobilenet_v3, large),
            {{"torchvision"}},
            std::move(timed)};
  };
  return {of("small", false, {}), of("large", true, {{224, 16}})};
}

Networks zoo::efficientnet() {
  return {
      efficientnet_of(0, {1, 1}, 0.2, 224, 256, {{224, 16}}),
      efficientnet_of(1, {1, 1.1}, 0.2, 240, 256), efficientnet_of(2, {1.1, 1.2}, 0.3, 288, 288),
      efficientnet_of(3, {1.2, 1.4}, 0.3, 300, 320), efficientnet_of(4, {1.4, 1.8}, 0.4, 380, 384)};
}

}  // namespace tessera
