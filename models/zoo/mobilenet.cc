// MobileNet v2 (Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018): a
// stem that halves the image, seventeen inverted residual blocks, a 1x1 convolution to 1280
// channels, global average pooling, dropout and a linear layer. A block expands the channels,
// filters each of them and projects them back, without an activation at the end:
//
//   y = norm(conv 1x1 (relu6(norm(depthwise 3x3 (relu6(norm(conv 1x1 (x))))))))
//
// plus x if the shapes agree.
//
// Names: features.0.0 (the stem), features.1.conv.0.0, ..., features.18.0, classifier.1, as in
// torchvision; a norm has the number after its convolution's.
#include <array>
#include <initializer_list>
#include <iterator>

#include <fmt/format.h>

#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

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
      units_.add<ConvNorm>(store, part(fmt::format("conv.{}.0", place)),
                           part(fmt::format("conv.{}.1", place)), conv, relu6);
      ++place;
    };
    if (expansion != 1) unit({.in = in, .out = wide, .kernel = 1});
    unit({.in = wide, .out = wide, .kernel = 3, .stride = stride, .padding = 1, .groups = wide});
    units_.add<ConvNorm>(store, part(fmt::format("conv.{}", place)),
                         part(fmt::format("conv.{}", place + 1)),
                         Conv2d::Settings{.in = wide, .out = out, .kernel = 1}, nullptr);
  }

 private:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = units_(x);
    return adds_ ? y + x : y;
  }

  bool adds_;
  Sequential units_;
};

struct V2Stage {
  int64_t expansion, channels, blocks, stride;
};

constexpr V2Stage kV2Stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                 {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
constexpr int64_t kV2Stem = 32, kV2Last = 1280;

void make_mobilenet_v2(NetworkBuilder& net, const ModelOptions& o) {
  int features = 0;
  const auto next = [&] { return fmt::format("features.{}", features++); };
  const auto unit = [&](const Conv2d::Settings& conv) {
    const std::string name = next();
    net.add<ConvNorm>(name + ".0", name + ".1", conv, relu6);
  };
  unit({.in = o.channels, .out = kV2Stem, .kernel = 3, .stride = 2, .padding = 1});
  int64_t in = kV2Stem;
  for (const V2Stage& stage : kV2Stages)
    for (int64_t i = 0; i < stage.blocks; ++i, in = stage.channels)
      net.add<V2Residual>(next(), in, stage.channels, i == 0 ? stage.stride : 1, stage.expansion);
  unit({.in = in, .out = kV2Last, .kernel = 1});
  net.apply(global_average_pool);
  net.dropout("classifier.0", *o.dropout);
  net.add<Linear>("classifier.1", {.in = kV2Last, .out = o.classes});
}

// Adds timm's names. timm numbers stages and blocks, which are one list here; the first block has
// no convolution that expands.
void add_timm_names_v2(NameTable& table) {
  table.modules = {{"features.0.0", "conv_stem"},
                   {"features.0.1", "bn1"},
                   {"features.18.0", "conv_head"},
                   {"features.18.1", "bn2"},
                   {"classifier.1", "classifier"}};
  const auto block = [&](int ours, size_t stage, int64_t index,
                         std::initializer_list<std::array<const char*, 2>> parts) {
    for (const auto& [here, there] : parts)
      table.modules.emplace_back(fmt::format("features.{}.conv.{}", ours, here),
                                 fmt::format("blocks.{}.{}.{}", stage, index, there));
  };
  block(1, 0, 0, {{"0.0", "conv_dw"}, {"0.1", "bn1"}, {"1", "conv_pw"}, {"2", "bn2"}});
  int ours = 2;
  for (size_t stage = 1; stage < std::size(kV2Stages); ++stage)
    for (int64_t i = 0; i < kV2Stages[stage].blocks; ++i, ++ours)
      block(ours, stage, i,
            {{"0.0", "conv_pw"},
             {"0.1", "bn1"},
             {"1.0", "conv_dw"},
             {"1.1", "bn2"},
             {"2", "conv_pwl"},
             {"3", "bn3"}});
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

}  // namespace tessera
