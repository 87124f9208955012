#include "tessera/models/zoo/resnet.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "tessera/layers/activation.h"
#include "tessera/layers/pool2d.h"
#include "tessera/layers/shortcut.h"
#include "tessera/layers/stochastic_depth.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr int64_t kExpansion = 4;  // of a bottleneck's last convolution

struct BlockShape {
  int64_t in, width, out;  // channels: of x, of the convolutions inside, of the result
  int64_t stride;
  ResNet::Shortcut shortcut;
  bool squeezes;
  double stochastic_depth;
};

Conv2d::Settings conv_settings(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1) {
  return {.in = in,
          .out = out,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .bias = false};
}

// What a residual ends with: squeeze and excitation where the network has it, and stochastic depth.
class Ending {
 public:
  Ending(Store& store, const std::string& name, const BlockShape& s)
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

// What is added to the residual: x itself where shapes agree.
class Bridge {
 public:
  Bridge(Store& store, const std::string& name, const BlockShape& s) : shape_(s) {
    if (is_identity() || s.shortcut == ResNet::Shortcut::kPad) return;
    conv_ = std::make_unique<Conv2d>(store, name + ".0", conv_settings(s.in, s.out, 1, s.stride));
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
        conv1_(store, part("conv1"), conv_settings(s.in, s.width, 3, s.stride)),
        bn1_(store, part("bn1"), {.channels = s.width}),
        conv2_(store, part("conv2"), conv_settings(s.width, s.out, 3)),
        bn2_(store, part("bn2"), {.channels = s.out}),
        ending_(store, part("se"), s),
        bridge_(store, part("downsample"), s) {}

 protected:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = relu(bn1_(conv1_(x)));
    return relu(ending_(bn2_(conv2_(y))) + bridge_(x));
  }

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Ending ending_;
  Bridge bridge_;
};

class BottleneckBlock final : public Module {
 public:
  BottleneckBlock(Store& store, std::string name, const BlockShape& s)
      : Module(std::move(name)),
        conv1_(store, part("conv1"), conv_settings(s.in, s.width, 1)),
        bn1_(store, part("bn1"), {.channels = s.width}),
        conv2_(store, part("conv2"), conv_settings(s.width, s.width, 3, s.stride)),
        bn2_(store, part("bn2"), {.channels = s.width}),
        conv3_(store, part("conv3"), conv_settings(s.width, s.out, 1)),
        bn3_(store, part("bn3"), {.channels = s.out}),
        ending_(store, part("se"), s),
        bridge_(store, part("downsample"), s) {}

 protected:
  Tensor forward(const Tensor& x) const override {
    Tensor y = relu(bn1_(conv1_(x)));
    y = relu(bn2_(conv2_(y)));
    return relu(ending_(bn3_(conv3_(y))) + bridge_(x));
  }

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Conv2d conv3_;
  BatchNorm2d bn3_;
  Ending ending_;
  Bridge bridge_;
};

Conv2d::Settings stem_settings(const ResNet::Settings& s) {
  if (s.blocks.empty() || s.blocks.size() != s.widths.size()) {
    throw ConfigError(
        fmt::format("resnet: blocks and widths must have one number for each stage, "
                    "have {} and {}",
                    s.blocks.size(), s.widths.size()));
  }
  return s.stem == ResNet::Stem::kLarge ? conv_settings(s.channels, s.widths[0], 7, 2)
                                        : conv_settings(s.channels, s.widths[0], 3);
}

}  // namespace

ResNet::ResNet(Store& store, const Settings& s)
    : Module(""),
      stem_(s.stem),
      conv1_(store, "conv1", stem_settings(s)),
      bn1_(store, "bn1", {.channels = s.widths[0]}) {
  const int64_t all = std::accumulate(s.blocks.begin(), s.blocks.end(), int64_t{0});
  int64_t channels = s.widths[0], made = 0;
  for (size_t stage = 0; stage < s.blocks.size(); ++stage) {
    const int64_t out = s.widths[stage] * (s.block == Block::kBottleneck ? kExpansion : 1);
    for (int64_t i = 0; i < s.blocks[stage]; ++i, ++made) {
      const double deep =
          static_cast<double>(made) / static_cast<double>(std::max<int64_t>(1, all - 1));
      const BlockShape shape{.in = channels,
                             .width = s.widths[stage],
                             .out = out,
                             .stride = stage > 0 && i == 0 ? 2 : 1,
                             .shortcut = s.shortcut,
                             .squeezes = s.squeezes,
                             .stochastic_depth = deep * s.stochastic_depth};
      std::string name = fmt::format("layer{}.{}", stage + 1, i);
      if (s.block == Block::kBasic) {
        blocks_.push_back(std::make_unique<BasicBlock>(store, std::move(name), shape));
      } else {
        blocks_.push_back(std::make_unique<BottleneckBlock>(store, std::move(name), shape));
      }
      channels = out;
    }
  }
  fc_ = std::make_unique<Linear>(store, "fc", Linear::Settings{.in = channels, .out = s.classes});
}

Tensor ResNet::forward(const Tensor& x) const {
  Tensor y = relu(bn1_(conv1_(x)));
  if (stem_ == Stem::kLarge) y = max_pool2d(y, {.kernel = 3, .stride = 2, .padding = 1});
  for (const auto& block : blocks_) y = (*block)(y);
  return (*fc_)(global_average_pool(y));
}

ResNet::Settings ResNet::cifar(int depth) {
  if (depth < 8 || depth % 6 != 2) {
    throw ConfigError(
        fmt::format("resnet: CIFAR depths are 6 n + 2 (20, 32, 44, ...), not {}", depth));
  }
  const int64_t n = (depth - 2) / 6;
  return {.block = Block::kBasic,
          .stem = Stem::kSmall,
          .shortcut = Shortcut::kPad,
          .blocks = {n, n, n},
          .widths = {16, 32, 64}};
}

ResNet::Settings ResNet::imagenet(int depth) {
  Settings s{.block = depth < 50 ? Block::kBasic : Block::kBottleneck,
             .stem = Stem::kLarge,
             .shortcut = Shortcut::kProject,
             .blocks = {},
             .widths = {64, 128, 256, 512},
             .classes = 1000};
  switch (depth) {
    case 18:
      s.blocks = {2, 2, 2, 2};
      break;
    case 34:
    case 50:
      s.blocks = {3, 4, 6, 3};
      break;
    case 101:
      s.blocks = {3, 4, 23, 3};
      break;
    case 152:
      s.blocks = {3, 8, 36, 3};
      break;
    default:
      throw ConfigError(
          fmt::format("resnet: ImageNet depths are 18, 34, 50, 101 and 152, not {}", depth));
  }
  return s;
}

}  // namespace tessera
