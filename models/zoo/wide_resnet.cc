#include "tessera/models/zoo/wide_resnet.h"

#include <fmt/format.h>

#include "tessera/layers/activation.h"
#include "tessera/layers/pool2d.h"
#include "tessera/models/zoo/option_error.h"

namespace tessera {

namespace {

Conv2d::Settings conv3(int64_t in, int64_t out, int64_t stride = 1) {
  return {.in = in, .out = out, .kernel = 3, .stride = stride, .padding = 1, .bias = false};
}

class Block final : public Module {
 public:
  Block(Store& store, std::string name, int64_t in, int64_t out, int64_t stride, double dropout)
      : Module(std::move(name)),
        bn1_(store, part("bn1"), {.channels = in}),
        conv1_(store, part("conv1"), conv3(in, out, stride)),
        bn2_(store, part("bn2"), {.channels = out}),
        conv2_(store, part("conv2"), conv3(out, out)) {
    if (dropout > 0) drop_ = std::make_unique<Dropout>(part("drop"), dropout);
    if (in != out || stride != 1)
      shortcut_ = std::make_unique<Conv2d>(
          store, part("shortcut"),
          Conv2d::Settings{.in = in, .out = out, .kernel = 1, .stride = stride, .bias = false});
  }

 protected:
  Tensor forward(const Tensor& x) const override {
    const Tensor o = relu(bn1_(x));
    Tensor y = relu(bn2_(conv1_(o)));
    if (drop_ != nullptr) y = (*drop_)(y);
    return conv2_(y) + (shortcut_ != nullptr ? (*shortcut_)(o) : x);
  }

 private:
  BatchNorm2d bn1_;
  Conv2d conv1_;
  BatchNorm2d bn2_;
  Conv2d conv2_;
  std::unique_ptr<Dropout> drop_;
  std::unique_ptr<Conv2d> shortcut_;
};

}  // namespace

WideResNet::WideResNet(Store& store, const Settings& s) : Module("") {
  if (s.depth < 10 || s.depth % 6 != 4)
    throw OptionError(
        "depth",
        fmt::format("wide_resnet: depths are 6 n + 4 (10, 16, 22, 28, 40), not {}", s.depth));
  if (s.width < 1) throw ConfigError(fmt::format("wide_resnet: width is {}", s.width));
  conv1_ = std::make_unique<Conv2d>(store, "conv1", conv3(s.channels, 16));
  int64_t in = 16;
  for (int64_t stage = 0; stage < 3; ++stage) {
    const int64_t out = (16 << stage) * s.width;
    for (int64_t i = 0; i < (s.depth - 4) / 6; ++i) {
      blocks_.push_back(std::make_unique<Block>(store, fmt::format("layer{}.{}", stage + 1, i), in,
                                                out, stage > 0 && i == 0 ? 2 : 1, s.dropout));
      in = out;
    }
  }
  bn_ = std::make_unique<BatchNorm2d>(store, "bn", BatchNorm2d::Settings{.channels = in});
  fc_ = std::make_unique<Linear>(store, "fc", Linear::Settings{.in = in, .out = s.classes});
}

Tensor WideResNet::forward(const Tensor& x) const {
  Tensor y = (*conv1_)(x);
  for (const auto& block : blocks_) y = (*block)(y);
  return (*fc_)(global_average_pool(relu((*bn_)(y))));
}

}  // namespace tessera
