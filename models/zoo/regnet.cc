#include "tessera/models/zoo/regnet.h"

#include <cmath>

#include <fmt/format.h>

#include "tessera/layers/pool2d.h"
#include "tessera/models/zoo/conv_norm.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr int64_t kRegNetStem = 32;
constexpr double kSqueeze = 0.25;  // of the channels that a block is given

class RegNetBlock final : public Module {
 public:
  RegNetBlock(Store& store, std::string name, int64_t in, int64_t out, int64_t stride,
              int64_t group)
      : Module(std::move(name)) {
    const auto unit = [&](const char* at, const Conv2d::Settings& conv, Activation activation) {
      return std::make_unique<ConvNorm>(store, part(at) + ".0", part(at) + ".1", conv, activation);
    };
    if (in != out || stride != 1)
      projection_ = unit("proj", {.in = in, .out = out, .kernel = 1, .stride = stride}, nullptr);
    f_.push_back(unit("f.a", {.in = in, .out = out, .kernel = 1}, relu));
    f_.push_back(unit(
        "f.b",
        {.in = out, .out = out, .kernel = 3, .stride = stride, .padding = 1, .groups = out / group},
        relu));
    const auto squeeze = static_cast<int64_t>(std::nearbyint(kSqueeze * static_cast<double>(in)));
    f_.push_back(std::make_unique<SqueezeExcitation>(
        store, part("f.se"), SqueezeExcitation::Settings{.channels = out, .squeeze = squeeze}));
    f_.push_back(unit("f.c", {.in = out, .out = out, .kernel = 1}, nullptr));
  }

 protected:
  Tensor forward(const Tensor& x) const override {
    return relu(in_turn(f_, x) + (projection_ != nullptr ? (*projection_)(x) : x));
  }

 private:
  std::unique_ptr<ConvNorm> projection_;  // none where the shapes agree
  Chain f_;
};

}  // namespace

RegNetY::RegNetY(Store& store, const Settings& s) : Module("") {
  stem_ = std::make_unique<ConvNorm>(
      store, "stem.0", "stem.1",
      Conv2d::Settings{
          .in = s.channels, .out = kRegNetStem, .kernel = 3, .stride = 2, .padding = 1},
      relu);
  int64_t in = kRegNetStem;
  for (size_t stage = 0; stage < s.blocks.size(); ++stage) {
    for (int64_t i = 0; i < s.blocks[stage]; ++i) {
      blocks_.push_back(std::make_unique<RegNetBlock>(
          store, fmt::format("trunk_output.block{0}.block{0}-{1}", stage + 1, i), in,
          s.widths[stage], i == 0 ? 2 : 1, s.group));
      in = s.widths[stage];
    }
  }
  fc_ = std::make_unique<Linear>(store, "fc", Linear::Settings{.in = in, .out = s.classes});
}

Tensor RegNetY::forward(const Tensor& x) const {
  return (*fc_)(global_average_pool(in_turn(blocks_, (*stem_)(x))));
}

RegNetY::Settings RegNetY::of_size(const std::string& size) {
  if (size == "400mf") return {};
  if (size == "800mf") return {.blocks = {1, 3, 8, 2}, .widths = {64, 144, 320, 784}, .group = 16};
  if (size == "1_6gf") return {.blocks = {2, 6, 17, 2}, .widths = {48, 120, 336, 888}, .group = 24};
  if (size == "3_2gf")
    return {.blocks = {2, 5, 13, 1}, .widths = {72, 216, 576, 1512}, .group = 24};
  throw ConfigError(fmt::format("regnet_y: sizes are 400mf, 800mf, 1_6gf and 3_2gf, not {}", size));
}

}  // namespace tessera
