// Wide residual networks (Zagoruyko and Komodakis, 2016) for images of CIFAR's size: conv 3x3 to
// 16, three stages of blocks with 16 k, 32 k, 64 k channels (the second and third halve the image),
// then batch norm, relu, global average pooling and a linear layer. A block is pre-activated:
//
//   o = relu(bn1(x)),   y = conv2(dropout(relu(bn2(conv1(o))))) + shortcut
//
// The shortcut is x, or a 1x1 convolution of o if the shapes differ.
//
// Names: conv1, layer1.0.bn1, layer1.0.conv1, ..., layer1.0.shortcut, bn, fc.
#include <fmt/format.h>

#include "tessera/layers/modules.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

Conv2d::Settings wide_conv(int64_t in, int64_t out, int64_t stride = 1) {
  return {.in = in, .out = out, .kernel = 3, .stride = stride, .padding = 1, .bias = false};
}

class WideBlock final : public Module {
 public:
  WideBlock(Store& store, std::string name, int64_t in, int64_t out, int64_t stride, double dropout)
      : Module(std::move(name)),
        bn1_(store, part("bn1"), {.channels = in}),
        conv1_(store, part("conv1"), wide_conv(in, out, stride)),
        bn2_(store, part("bn2"), {.channels = out}),
        conv2_(store, part("conv2"), wide_conv(out, out)) {
    if (dropout > 0) drop_ = std::make_unique<Dropout>(part("drop"), dropout);
    if (in != out || stride != 1)
      shortcut_ = std::make_unique<Conv2d>(
          store, part("shortcut"),
          Conv2d::Settings{.in = in, .out = out, .kernel = 1, .stride = stride, .bias = false});
  }

 private:
  Tensor forward(const Tensor& x) const override {
    const Tensor o = relu(bn1_(x));
    Tensor y = relu(bn2_(conv1_(o)));
    if (drop_ != nullptr) y = (*drop_)(y);
    return conv2_(y) + (shortcut_ != nullptr ? (*shortcut_)(o) : x);
  }

  BatchNorm2d bn1_;
  Conv2d conv1_;
  BatchNorm2d bn2_;
  Conv2d conv2_;
  std::unique_ptr<Dropout> drop_;
  std::unique_ptr<Conv2d> shortcut_;
};

void make_wide_resnet(NetworkBuilder& net, const ModelOptions& o) {
  const int64_t depth = *o.depth, widen = *o.widen;
  if (depth < 10 || depth % 6 != 4)
    throw OptionError(
        "depth",
        fmt::format("wide_resnet: depth must be 6 n + 4 (10, 16, 22, 28, 40), but is {}", depth));
  if (widen < 1)
    throw ConfigError(fmt::format("wide_resnet: widen must be at least 1, but is {}", widen));
  net.add<Conv2d>("conv1", wide_conv(o.channels, 16));
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

Networks zoo::wide_resnet() {
  return {{"wide_resnet", {.dropout = 0, .depth = 28, .widen = 10}, make_wide_resnet}};
}

}  // namespace tessera
