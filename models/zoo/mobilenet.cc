#include "tessera/models/zoo/mobilenet.h"

#include <fmt/format.h>

#include "tessera/layers/pool2d.h"
#include "tessera/models/zoo/conv_norm.h"

namespace tessera {

namespace {

class V2Residual final : public Module {
 public:
  V2Residual(Store& store, std::string name, int64_t in, int64_t out, int64_t stride,
             int64_t expansion)
      : Module(std::move(name)), adds_(stride == 1 && in == out) {
    const int64_t wide = in * expansion;
    int place = 0;
    const auto unit = [&](const Conv2d::Settings& conv) {
      units_.push_back(std::make_unique<ConvNorm>(store, part(fmt::format("conv.{}.0", place)),
                                                  part(fmt::format("conv.{}.1", place)), conv,
                                                  relu6));
      ++place;
    };
    if (expansion != 1) unit({.in = in, .out = wide, .kernel = 1});
    unit({.in = wide, .out = wide, .kernel = 3, .stride = stride, .padding = 1, .groups = wide});
    units_.push_back(std::make_unique<ConvNorm>(
        store, part(fmt::format("conv.{}", place)), part(fmt::format("conv.{}", place + 1)),
        Conv2d::Settings{.in = wide, .out = out, .kernel = 1}, nullptr));
  }

 protected:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = in_turn(units_, x);
    return adds_ ? y + x : y;
  }

 private:
  bool adds_;
  Chain units_;
};

struct V2Stage {
  int64_t expansion, channels, blocks, stride;
};

constexpr V2Stage kV2Stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
constexpr int64_t kV2Stem = 32, kLast = 1280;

}  // namespace

MobileNetV2::MobileNetV2(Store& store, const Settings& s) : Module("") {
  const auto unit = [&](const Conv2d::Settings& conv) {
    const std::string name = fmt::format("features.{}", features_.size());
    features_.push_back(std::make_unique<ConvNorm>(store, name + ".0", name + ".1", conv, relu6));
  };
  unit({.in = s.channels, .out = kV2Stem, .kernel = 3, .stride = 2, .padding = 1});
  int64_t in = kV2Stem;
  for (const V2Stage& stage : kV2Stages) {
    for (int64_t i = 0; i < stage.blocks; ++i) {
      features_.push_back(
          std::make_unique<V2Residual>(store, fmt::format("features.{}", features_.size()), in,
                                       stage.channels, i == 0 ? stage.stride : 1, stage.expansion));
      in = stage.channels;
    }
  }
  unit({.in = in, .out = kLast, .kernel = 1});
  if (s.dropout > 0) drop_ = std::make_unique<Dropout>("classifier.0", s.dropout);
  classifier_ = std::make_unique<Linear>(store, "classifier.1",
                                         Linear::Settings{.in = kLast, .out = s.classes});
}

Tensor MobileNetV2::forward(const Tensor& x) const {
  Tensor y = global_average_pool(in_turn(features_, x));
  if (drop_ != nullptr) y = (*drop_)(y);
  return (*classifier_)(y);
}

}  // namespace tessera
