// Residual networks (He et al., "Deep Residual Learning for Image Recognition", 2015): a stem,
// stages of residual blocks (all but the first halve the image), global average pooling and a
// linear layer.
//
//   basic        y = relu(bn2(conv2(relu(bn1(conv1(x))))) + shortcut(x))         two 3x3
//   bottleneck   y = relu(bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x)))))))) + shortcut(x))
//                1x1, 3x3, 1x1 to four times the width; the 3x3 strides (the "v1.5" form)
//
// Names: conv1, bn1, layer1.0.conv1, layer1.0.bn1, ..., fc; a projection shortcut is
// layerS.0.downsample.0 (the 1x1 convolution) and .1 (its batch norm); squeeze and excitation (Hu
// et al. 2017), to a sixteenth of the channels, is layer1.0.se.fc1 and .fc2.
#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "tessera/layers/modules.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/dropout.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

struct ResNetSettings {
  std::vector<int64_t> blocks;                        // per stage
  std::vector<int64_t> widths = {64, 128, 256, 512};  // channels per stage (bottleneck: a quarter)
  bool bottleneck = false;
  // conv 7x7 stride 2, max pool 3 stride 2: for ImageNet's images; else conv 3x3, for CIFAR's.
  bool large_stem = true;
  // Shortcut between unequal shapes: a 1x1 convolution and batch norm ("option B"); else every
  // second pixel, and zeros on both sides for new channels ("option A").
  bool projects = true;
  bool squeezes = false;  // the residual goes through squeeze and excitation ("SE-ResNet")
};

constexpr int64_t kBottleneckExpansion = 4;  // factor of its last convolution

Conv2d::Settings resnet_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return {.in = in,
          .out = out,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .bias = false};
}

class ResidualBlock final : public Module {
 public:
  struct Settings {
    int64_t in, width, out;  // channels: of x, of the convolutions inside, of the result
    int64_t stride;
    bool bottleneck, projects, squeezes;
    double stochastic_depth;
  };

  ResidualBlock(Store& store, std::string name, const Settings& s)
      : Module(std::move(name)), settings_(s) {
    const auto unit = [&](const Conv2d::Settings& conv) {
      const size_t i = units_.size() + 1;
      units_.emplace_back(store, part(fmt::format("conv{}", i)), part(fmt::format("bn{}", i)), conv,
                          nullptr);
    };
    if (s.bottleneck) {
      unit(resnet_conv(s.in, s.width, 1));
      unit(resnet_conv(s.width, s.width, 3, s.stride));
      unit(resnet_conv(s.width, s.out, 1));
    } else {
      unit(resnet_conv(s.in, s.width, 3, s.stride));
      unit(resnet_conv(s.width, s.out, 3));
    }
    if (s.squeezes)
      se_.emplace(store, part("se"),
                  SqueezeExcitation::Settings{.channels = s.out,
                                              .squeeze = std::max<int64_t>(8, s.out / 16)});
    if (!keeps_shape() && s.projects)
      projection_.emplace(store, part("downsample.0"), part("downsample.1"),
                          resnet_conv(s.in, s.out, 1, s.stride), nullptr);
  }

 private:
  Tensor forward(const Tensor& x) const override {
    Tensor y = x;
    for (size_t i = 0; i + 1 < units_.size(); ++i) y = relu(units_[i](y));
    return relu(ending(units_.back()(y)) + bridge(x));
  }
  Tensor ending(const Tensor& y) const {
    return stochastic_depth(se_ ? (*se_)(y) : y, settings_.stochastic_depth);
  }
  // Returns the shortcut that is added to the residual.
  Tensor bridge(const Tensor& x) const {
    if (keeps_shape()) return x;
    if (projection_) return (*projection_)(x);
    return shortcut(x, {.stride = settings_.stride, .channels = settings_.out});
  }
  bool keeps_shape() const { return settings_.stride == 1 && settings_.in == settings_.out; }

  Settings settings_;
  std::deque<ConvNorm> units_;
  std::optional<SqueezeExcitation> se_;
  std::optional<ConvNorm> projection_;
};

void make_resnet(const ResNetSettings& s, NetworkBuilder& net, const ModelOptions& o) {
  net.add<ConvNorm>(
      "conv1", "bn1",
      resnet_conv(o.channels, s.widths[0], s.large_stem ? 7 : 3, s.large_stem ? 2 : 1), relu);
  if (s.large_stem) net.max_pool({.kernel = 3, .stride = 2, .padding = 1});
  const int64_t all = std::accumulate(s.blocks.begin(), s.blocks.end(), int64_t{0});
  int64_t channels = s.widths[0], made = 0;
  for (size_t stage = 0; stage < s.blocks.size(); ++stage) {
    const int64_t out = s.widths[stage] * (s.bottleneck ? kBottleneckExpansion : 1);
    for (int64_t i = 0; i < s.blocks[stage]; ++i, ++made, channels = out) {
      const double deep =
          static_cast<double>(made) / static_cast<double>(std::max<int64_t>(1, all - 1));
      net.add<ResidualBlock>(fmt::format("layer{}.{}", stage + 1, i),
                             {.in = channels,
                              .width = s.widths[stage],
                              .out = out,
                              .stride = stage > 0 && i == 0 ? 2 : 1,
                              .bottleneck = s.bottleneck,
                              .projects = s.projects,
                              .squeezes = s.squeezes,
                              .stochastic_depth = deep * *o.stochastic_depth});
    }
  }
  net.apply(global_average_pool);
  net.add<Linear>("fc", {.in = channels, .out = o.classes});
}

Network resnet_of(std::string name, const ResNetSettings& settings,
                  std::vector<NameTable> tables = {}, std::vector<TimedAt> timed = {}) {
  return {std::move(name),
          {.stochastic_depth = 0},
          std::bind_front(make_resnet, settings),
          std::move(tables),
          std::move(timed)};
}

Network cifar_resnet(int64_t n, std::vector<TimedAt> timed = {}) {
  return resnet_of(
      fmt::format("resnet{}", 6 * n + 2),
      {.blocks = {n, n, n}, .widths = {16, 32, 64}, .large_stem = false, .projects = false}, {},
      std::move(timed));
}

// Wide residual networks (Zagoruyko and Komodakis, 2016) for images of CIFAR's size: conv 3x3 to
// 16, three stages of blocks with 16 k, 32 k, 64 k channels (the second and third halve the image),
// then batch norm, relu, global average pooling and a linear layer. A block is pre-activated:
//
//   o = relu(bn1(x)),   y = conv2(dropout(relu(bn2(conv1(o))))) + shortcut
//
// The shortcut is x, or a 1x1 convolution of o if the shapes differ. Names: conv1, layer1.0.bn1,
// layer1.0.conv1, ..., layer1.0.shortcut, bn, fc.
class WideBlock final : public Module {
 public:
  WideBlock(Store& store, std::string name, int64_t in, int64_t out, int64_t stride, double dropout)
      : Module(std::move(name)),
        bn1_(store, part("bn1"), {.channels = in}),
        conv1_(store, part("conv1"), resnet_conv(in, out, 3, stride)),
        bn2_(store, part("bn2"), {.channels = out}),
        conv2_(store, part("conv2"), resnet_conv(out, out, 3)) {
    if (dropout > 0) drop_.emplace(part("drop"), dropout);
    if (in != out || stride != 1)
      shortcut_.emplace(store, part("shortcut"), resnet_conv(in, out, 1, stride));
  }

 private:
  Tensor forward(const Tensor& x) const override {
    const Tensor o = relu(bn1_(x));
    Tensor y = relu(bn2_(conv1_(o)));
    if (drop_) y = (*drop_)(y);
    return conv2_(y) + (shortcut_ ? (*shortcut_)(o) : x);
  }

  BatchNorm2d bn1_;
  Conv2d conv1_;
  BatchNorm2d bn2_;
  Conv2d conv2_;
  std::optional<Dropout> drop_;
  std::optional<Conv2d> shortcut_;
};

void make_wide_resnet(NetworkBuilder& net, const ModelOptions& o) {
  const int64_t depth = *o.depth, widen = *o.widen;
  if (depth < 10 || depth % 6 != 4)
    throw OptionError(
        "depth",
        fmt::format("wide_resnet: depth must be 6 n + 4 (10, 16, 22, 28, 40), but is {}", depth));
  if (widen < 1)
    throw ConfigError(fmt::format("wide_resnet: widen must be at least 1, but is {}", widen));
  net.add<Conv2d>("conv1", resnet_conv(o.channels, 16, 3));
  int64_t in = 16;
  for (int64_t stage = 0; stage < 3; ++stage) {
    const int64_t out = (16 << stage) * widen;
    for (int64_t i = 0; i < (depth - 4) / 6; ++i, in = out)
      net.add<WideBlock>(fmt::format("layer{}.{}", stage + 1, i), in, out,
                         stage > 0 && i == 0 ? 2 : 1, *o.dropout);
  }
  net.add<BatchNorm2d>("bn", {.channels = in});
  net.apply(relu);
  net.apply(global_average_pool);
  net.add<Linear>("fc", {.in = in, .out = o.classes});
}

}  // namespace

Networks zoo::resnet() {
  const std::vector<NameTable> both{{"torchvision"}, {"timm"}};
  return {
      cifar_resnet(3, {{32, 128}}),
      cifar_resnet(5),
      cifar_resnet(7),
      cifar_resnet(9),
      cifar_resnet(18),
      resnet_of("resnet18", {.blocks = {2, 2, 2, 2}}, both, {{224, 16}}),
      resnet_of("resnet34", {.blocks = {3, 4, 6, 3}}, both),
      resnet_of("resnet50", {.blocks = {3, 4, 6, 3}, .bottleneck = true}, both, {{224, 8}}),
      resnet_of("resnet101", {.blocks = {3, 4, 23, 3}, .bottleneck = true}, both),
      resnet_of("resnet152", {.blocks = {3, 8, 36, 3}, .bottleneck = true}, both),
      resnet_of("resnet18_cifar", {.blocks = {2, 2, 2, 2}, .large_stem = false}, {}, {{32, 64}})};
}

Networks zoo::seresnet() {
  return {resnet_of("seresnet18", {.blocks = {2, 2, 2, 2}, .squeezes = true}, {{"timm"}}),
          resnet_of("seresnet50", {.blocks = {3, 4, 6, 3}, .bottleneck = true, .squeezes = true},
                    {{"timm"}})};
}

Networks zoo::wide_resnet() {
  return {{"wide_resnet", {.dropout = 0, .depth = 28, .widen = 10}, make_wide_resnet}};
}

}  // namespace tessera
