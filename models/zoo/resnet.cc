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
#include <numeric>

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

struct BlockShape {
  int64_t in, width, out;  // channels: of x, of the convolutions inside, of the result
  int64_t stride;
  bool projects;
  bool squeezes;
  double stochastic_depth;
};

Conv2d::Settings resnet_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return {.in = in,
          .out = out,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .bias = false};
}

// The end of a residual: squeeze and excitation if the network has it, then stochastic depth.
class ResidualEnding {
 public:
  ResidualEnding(Store& store, const std::string& name, const BlockShape& s)
      : stochastic_depth_(s.stochastic_depth) {
    if (s.squeezes)
      se_ = std::make_unique<SqueezeExcitation>(
          store, name,
          SqueezeExcitation::Settings{.channels = s.out,
                                      .squeeze = std::max<int64_t>(8, s.out / 16)});
  }
  Tensor operator()(const Tensor& x) const {
    return stochastic_depth(se_ != nullptr ? (*se_)(x) : x, stochastic_depth_);
  }

 private:
  std::unique_ptr<SqueezeExcitation> se_;
  double stochastic_depth_;
};

// The shortcut that is added to the residual: x itself if the shapes agree.
class Bridge {
 public:
  Bridge(Store& store, const std::string& name, const BlockShape& s) : shape_(s) {
    if (is_identity() || !s.projects) return;
    conv_ = std::make_unique<Conv2d>(store, name + ".0", resnet_conv(s.in, s.out, 1, s.stride));
    norm_ =
        std::make_unique<BatchNorm2d>(store, name + ".1", BatchNorm2d::Settings{.channels = s.out});
  }
  Tensor operator()(const Tensor& x) const {
    if (is_identity()) return x;
    if (conv_ != nullptr) return (*norm_)((*conv_)(x));
    return shortcut(x, {.stride = shape_.stride, .channels = shape_.out});
  }

 private:
  bool is_identity() const { return shape_.stride == 1 && shape_.in == shape_.out; }

  BlockShape shape_;
  std::unique_ptr<Conv2d> conv_;
  std::unique_ptr<BatchNorm2d> norm_;
};

class BasicBlock final : public Module {
 public:
  BasicBlock(Store& store, std::string name, const BlockShape& s)
      : Module(std::move(name)),
        conv1_(store, part("conv1"), resnet_conv(s.in, s.width, 3, s.stride)),
        bn1_(store, part("bn1"), {.channels = s.width}),
        conv2_(store, part("conv2"), resnet_conv(s.width, s.out, 3)),
        bn2_(store, part("bn2"), {.channels = s.out}),
        ending_(store, part("se"), s),
        bridge_(store, part("downsample"), s) {}

 private:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = relu(bn1_(conv1_(x)));
    return relu(ending_(bn2_(conv2_(y))) + bridge_(x));
  }

  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  ResidualEnding ending_;
  Bridge bridge_;
};

class BottleneckBlock final : public Module {
 public:
  BottleneckBlock(Store& store, std::string name, const BlockShape& s)
      : Module(std::move(name)),
        conv1_(store, part("conv1"), resnet_conv(s.in, s.width, 1)),
        bn1_(store, part("bn1"), {.channels = s.width}),
        conv2_(store, part("conv2"), resnet_conv(s.width, s.width, 3, s.stride)),
        bn2_(store, part("bn2"), {.channels = s.width}),
        conv3_(store, part("conv3"), resnet_conv(s.width, s.out, 1)),
        bn3_(store, part("bn3"), {.channels = s.out}),
        ending_(store, part("se"), s),
        bridge_(store, part("downsample"), s) {}

 private:
  Tensor forward(const Tensor& x) const override {
    Tensor y = relu(bn1_(conv1_(x)));
    y = relu(bn2_(conv2_(y)));
    return relu(ending_(bn3_(conv3_(y))) + bridge_(x));
  }

  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Conv2d conv3_;
  BatchNorm2d bn3_;
  ResidualEnding ending_;
  Bridge bridge_;
};

void make_resnet(NetworkBuilder& net, const ModelOptions& o, const ResNetSettings& s) {
  net.add<Conv2d>("conv1",
                  resnet_conv(o.channels, s.widths[0], s.large_stem ? 7 : 3, s.large_stem ? 2 : 1));
  net.add<BatchNorm2d>("bn1", {.channels = s.widths[0]});
  net.apply(relu);
  if (s.large_stem) net.max_pool({.kernel = 3, .stride = 2, .padding = 1});
  const int64_t all = std::accumulate(s.blocks.begin(), s.blocks.end(), int64_t{0});
  int64_t channels = s.widths[0], made = 0;
  for (size_t stage = 0; stage < s.blocks.size(); ++stage) {
    const int64_t out = s.widths[stage] * (s.bottleneck ? kBottleneckExpansion : 1);
    for (int64_t i = 0; i < s.blocks[stage]; ++i, ++made, channels = out) {
      const double deep =
          static_cast<double>(made) / static_cast<double>(std::max<int64_t>(1, all - 1));
      const BlockShape shape{.in = channels,
                             .width = s.widths[stage],
                             .out = out,
                             .stride = stage > 0 && i == 0 ? 2 : 1,
                             .projects = s.projects,
                             .squeezes = s.squeezes,
                             .stochastic_depth = deep * *o.stochastic_depth};
      const std::string name = fmt::format("layer{}.{}", stage + 1, i);
      if (s.bottleneck)
        net.add<BottleneckBlock>(name, shape);
      else
        net.add<BasicBlock>(name, shape);
    }
  }
  net.apply(global_average_pool);
  net.add<Linear>("fc", {.in = channels, .out = o.classes});
}

Network resnet_of(std::string name, const ResNetSettings& settings,
                  std::vector<NameTable> tables = {}, std::vector<TimedAt> timed = {}) {
  return {std::move(name),
          {.stochastic_depth = 0},
          [settings](NetworkBuilder& net, const ModelOptions& o) { make_resnet(net, o, settings); },
          std::move(tables),
          std::move(timed)};
}

Network cifar_resnet(int64_t n, std::vector<TimedAt> timed = {}) {
  return resnet_of(
      fmt::format("resnet{}", 6 * n + 2),
      {.blocks = {n, n, n}, .widths = {16, 32, 64}, .large_stem = false, .projects = false}, {},
      std::move(timed));
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

}  // namespace tessera
