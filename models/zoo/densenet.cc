#include "tessera/models/zoo/densenet.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/layers/activation.h"
#include "tessera/layers/concat.h"
#include "tessera/layers/pool2d.h"
#include "tessera/models/zoo/option_error.h"

namespace tessera {

namespace {

constexpr int64_t kBottleneck = 4;  // channels of the 1x1 convolution, in growths

class Layer final : public Module {
 public:
  Layer(Store& store, std::string name, int64_t in, int64_t growth)
      : Module(std::move(name)),
        norm1_(store, part("norm1"), {.channels = in}),
        conv1_(store, part("conv1"),
               {.in = in, .out = kBottleneck * growth, .kernel = 1, .bias = false}),
        norm2_(store, part("norm2"), {.channels = kBottleneck * growth}),
        conv2_(
            store, part("conv2"),
            {.in = kBottleneck * growth, .out = growth, .kernel = 3, .padding = 1, .bias = false}) {
  }

 protected:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = conv1_(relu(norm1_(x)));
    return concat({x, conv2_(relu(norm2_(y)))});
  }

 private:
  BatchNorm2d norm1_;
  Conv2d conv1_;
  BatchNorm2d norm2_;
  Conv2d conv2_;
};

class Transition final : public Module {
 public:
  Transition(Store& store, std::string name, int64_t in, int64_t out)
      : Module(std::move(name)),
        norm_(store, part("norm"), {.channels = in}),
        conv_(store, part("conv"), {.in = in, .out = out, .kernel = 1, .bias = false}) {}

 protected:
  Tensor forward(const Tensor& x) const override {
    return average_pool2d(conv_(relu(norm_(x))), {.kernel = 2});
  }

 private:
  BatchNorm2d norm_;
  Conv2d conv_;
};

Conv2d::Settings stem_of(const DenseNet::Settings& s) {
  if (s.large_stem)
    return {.in = s.channels, .out = s.stem, .kernel = 7, .stride = 2, .padding = 3, .bias = false};
  return {.in = s.channels, .out = s.stem, .kernel = 3, .padding = 1, .bias = false};
}

}  // namespace

DenseNet::DenseNet(Store& store, const Settings& s) : Module(""), large_stem_(s.large_stem) {
  if (s.blocks.empty() || *std::min_element(s.blocks.begin(), s.blocks.end()) < 1 || s.growth < 1)
    throw ConfigError("densenet: needs blocks of at least one layer, and a growth of at least 1");
  conv0_ = std::make_unique<Conv2d>(store, "features.conv0", stem_of(s));
  const auto norm = [&](std::string name, int64_t channels) {
    return std::make_unique<BatchNorm2d>(store, std::move(name),
                                         BatchNorm2d::Settings{.channels = channels});
  };
  if (large_stem_) norm0_ = norm("features.norm0", s.stem);
  int64_t channels = s.stem;
  for (size_t block = 1; block <= s.blocks.size(); ++block) {
    for (int64_t i = 1; i <= s.blocks[block - 1]; ++i, channels += s.growth)
      layers_.push_back(std::make_unique<Layer>(
          store, fmt::format("features.denseblock{}.denselayer{}", block, i), channels, s.growth));
    if (block == s.blocks.size()) break;
    layers_.push_back(std::make_unique<Transition>(
        store, fmt::format("features.transition{}", block), channels, channels / 2));
    channels /= 2;
  }
  last_norm_ = norm(fmt::format("features.norm{}", s.blocks.size() + 1), channels);
  classifier_ = std::make_unique<Linear>(store, "classifier",
                                         Linear::Settings{.in = channels, .out = s.classes});
}

Tensor DenseNet::forward(const Tensor& x) const {
  Tensor y = (*conv0_)(x);
  if (large_stem_) y = max_pool2d(relu((*norm0_)(y)), {.kernel = 3, .stride = 2, .padding = 1});
  for (const auto& layer : layers_) y = (*layer)(y);
  return (*classifier_)(global_average_pool(relu((*last_norm_)(y))));
}

DenseNet::Settings DenseNet::cifar(int64_t depth, int64_t growth) {
  if (depth < 10 || depth % 6 != 4)
    throw OptionError(
        "depth", fmt::format("densenet_bc: depths are 6 n + 4 (40, 100, 190, ...), not {}", depth));
  const int64_t layers = (depth - 4) / 6;
  return {.blocks = {layers, layers, layers},
          .growth = growth,
          .stem = 2 * growth,
          .large_stem = false,
          .classes = 10};
}

}  // namespace tessera
