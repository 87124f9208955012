// RegNetY (Radosavovic et al., "Designing Network Design Spaces", 2020): a stem and four stages
// that each halve the image, global average pooling and a linear layer.
//
//   block   relu(norm(conv 1x1 (squeeze_excitation(b(a(x))))) + x)
//   a       relu(norm(conv 1x1))      b   relu(norm(conv 3x3 in groups))
//
// Squeeze and excitation has a quarter of the block's input channels. Names: stem.0, stem.1,
// trunk_output.block1.block1-0.proj.0, .f.a.0, .f.b.0, .f.se.fc1, .f.c.0, ..., fc, as in
// torchvision.
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

constexpr int64_t kRegNetStem = 32;
constexpr double kRegNetSqueeze = 0.25;  // fraction of the input channels of a block

class RegNetBlock final : public Module {
 public:
  RegNetBlock(Store& store, std::string name, int64_t in, int64_t out, int64_t stride,
              int64_t group)
      : Module(std::move(name)) {
    const auto unit = [&](Sequential& units, const char* at, const Conv2d::Settings& conv,
                          Activation activation) {
      units.add<ConvNorm>(store, part(at) + ".0", part(at) + ".1", conv, activation);
    };
    if (in != out || stride != 1)
      unit(projection_, "proj", {.in = in, .out = out, .kernel = 1, .stride = stride}, nullptr);
    unit(f_, "f.a", {.in = in, .out = out, .kernel = 1}, relu);
    unit(
        f_, "f.b",
        {.in = out, .out = out, .kernel = 3, .stride = stride, .padding = 1, .groups = out / group},
        relu);
    const auto squeeze =
        static_cast<int64_t>(std::nearbyint(kRegNetSqueeze * static_cast<double>(in)));
    f_.add<SqueezeExcitation>(store, part("f.se"),
                              SqueezeExcitation::Settings{.channels = out, .squeeze = squeeze});
    unit(f_, "f.c", {.in = out, .out = out, .kernel = 1}, nullptr);
  }

 private:
  Tensor forward(const Tensor& x) const override { return relu(f_(x) + projection_(x)); }
  Sequential projection_, f_;  // projection_: empty if the shapes agree
};

struct RegNetSettings {
  std::vector<int64_t> blocks;  // per stage
  std::vector<int64_t> widths;  // channels per stage
  int64_t group;                // channels of a group of the 3x3 convolutions
};

void make_regnet_y(const RegNetSettings& s, NetworkBuilder& net, const ModelOptions& o) {
  const Conv2d::Settings stem{
      .in = o.channels, .out = kRegNetStem, .kernel = 3, .stride = 2, .padding = 1};
  net.conv_norm("stem", stem, relu);
  int64_t in = kRegNetStem;
  for (size_t stage = 0; stage < s.blocks.size(); ++stage)
    for (int64_t i = 0; i < s.blocks[stage]; ++i, in = s.widths[stage])
      net.add<RegNetBlock>(fmt::format("trunk_output.block{0}.block{0}-{1}", stage + 1, i), in,
                           s.widths[stage], i == 0 ? 2 : 1, s.group);
  net.apply(global_average_pool);
  net.add<Linear>("fc", {.in = in, .out = o.classes});
}

Network regnet_of(const char* size, const RegNetSettings& settings,
                  std::vector<TimedAt> timed = {}) {
  return {fmt::format("regnet_y_{}", size),
          {},
          std::bind_front(make_regnet_y, settings),
          {{"torchvision"}},
          std::move(timed)};
}

}  // namespace

Networks zoo::regnet_y() {
  return {regnet_of("400mf", {{1, 3, 6, 6}, {48, 104, 208, 440}, 8}, {{224, 16}}),
          regnet_of("800mf", {{1, 3, 8, 2}, {64, 144, 320, 784}, 16}),
          regnet_of("1_6gf", {{2, 6, 17, 2}, {48, 120, 336, 888}, 24}),
          regnet_of("3_2gf", {{2, 5, 13, 1}, {72, 216, 576, 1512}, 24})};
}

}  // namespace tessera
