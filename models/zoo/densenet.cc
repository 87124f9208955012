// Densely connected networks with bottlenecks and compression, "DenseNet-BC" (Huang et al., 2016):
// every layer of a block reads all channels before it and adds `growth` channels,
//
//   layer       y = concat(x, conv2 3x3 (relu(norm2(conv1 1x1 (relu(norm1(x)))))))
//   transition  average pool 2 (conv 1x1 to half the channels (relu(norm(x))))
//
// between the blocks; at the end batch norm, relu, global average pooling, a linear layer.
//
// Names: features.conv0, features.norm0, features.denseblock1.denselayer1.norm1, ...,
// features.transition1.conv, features.norm5, classifier, as in torchvision.
#include <fmt/format.h>

#include "tessera/layers/ops/concat.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

constexpr int64_t kBottleneck = 4;  // channels of the 1x1 convolution / growth

class DenseLayer final : public Module {
 public:
  DenseLayer(Store& store, std::string name, int64_t in, int64_t growth)
      : Module(std::move(name)),
        norm1_(store, part("norm1"), {.channels = in}),
        conv1_(store, part("conv1"), part("norm2"),
               {.in = in, .out = kBottleneck * growth, .kernel = 1}, nullptr),
        conv2_(
            store, part("conv2"),
            {.in = kBottleneck * growth, .out = growth, .kernel = 3, .padding = 1, .bias = false}) {
  }

 private:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = conv1_(relu(norm1_(x)));
    return concat({x, conv2_(relu(y))});
  }

  BatchNorm2d norm1_;
  ConvNorm conv1_;  // and norm2
  Conv2d conv2_;
};

class DenseTransition final : public Module {
 public:
  DenseTransition(Store& store, std::string name, int64_t in, int64_t out)
      : Module(std::move(name)),
        norm_(store, part("norm"), {.channels = in}),
        conv_(store, part("conv"), {.in = in, .out = out, .kernel = 1, .bias = false}) {}

 private:
  Tensor forward(const Tensor& x) const override {
    return average_pool2d(conv_(relu(norm_(x))), {.kernel = 2});
  }

  BatchNorm2d norm_;
  Conv2d conv_;
};

// `blocks`: layers per block. Large stem: conv 7x7 stride 2, norm, relu, max pool; else conv 3x3.
void make_densenet(NetworkBuilder& net, const ModelOptions& o, const std::vector<int64_t>& blocks,
                   int64_t growth, bool large_stem) {
  int64_t channels = 2 * growth;
  if (large_stem) {
    net.add<ConvNorm>(
        "features.conv0", "features.norm0",
        Conv2d::Settings{.in = o.channels, .out = channels, .kernel = 7, .stride = 2, .padding = 3},
        relu);
    net.max_pool({.kernel = 3, .stride = 2, .padding = 1});
  } else {
    net.add<Conv2d>("features.conv0",
                    {.in = o.channels, .out = channels, .kernel = 3, .padding = 1, .bias = false});
  }
  for (size_t block = 1; block <= blocks.size(); ++block) {
    for (int64_t i = 1; i <= blocks[block - 1]; ++i, channels += growth)
      net.add<DenseLayer>(fmt::format("features.denseblock{}.denselayer{}", block, i), channels,
                          growth);
    if (block == blocks.size()) break;
    net.add<DenseTransition>(fmt::format("features.transition{}", block), channels, channels / 2);
    channels /= 2;
  }
  net.add_with_relu<BatchNorm2d>(fmt::format("features.norm{}", blocks.size() + 1),
                                 {.channels = channels});
  net.apply(global_average_pool);
  net.add<Linear>("classifier", {.in = channels, .out = o.classes});
}

void make_densenet121(NetworkBuilder& net, const ModelOptions& o) {
  make_densenet(net, o, {6, 12, 24, 16}, 32, true);
}

// Adds the form for CIFAR: three blocks, depth 6 n + 4.
void make_densenet_bc(NetworkBuilder& net, const ModelOptions& o) {
  const int64_t depth = *o.depth, layers = (depth - 4) / 6;
  if (depth < 10 || depth % 6 != 4)
    throw OptionError(
        "depth",
        fmt::format("densenet_bc: depth must be 6 n + 4 (40, 100, 190, ...), but is {}", depth));
  if (*o.growth < 1)
    throw ConfigError("densenet: needs blocks of at least one layer, and a growth of at least 1");
  make_densenet(net, o, {layers, layers, layers}, *o.growth, false);
}

}  // namespace

Networks zoo::densenet() {
  return {{"densenet121", {}, make_densenet121, {{"torchvision"}, {"timm"}}, {{224, 8}}}};
}

Networks zoo::densenet_bc() {
  return {{"densenet_bc", {.depth = 100, .growth = 12}, make_densenet_bc, {}, {{32, 64}}}};
}

}  // namespace tessera
