#include "tessera/models/zoo/convnext.h"

#include <numeric>
#include <type_traits>

#include <fmt/format.h>

#include "tessera/layers/pool2d.h"
#include "tessera/layers/stochastic_depth.h"
#include "tessera/models/zoo/conv_norm.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr int64_t kExpansion = 4;  // of the channels between fc1 and fc2
constexpr double kEps = 1e-6;      // of the layer norms

class ConvNextBlock final : public Module {
 public:
  ConvNextBlock(Store& store, std::string name, int64_t width, double stochastic_depth)
      : Module(std::move(name)),
        scale_(store, this->name(), {.channels = width}),
        conv_(store, part("conv_dw"),
              {.in = width, .out = width, .kernel = 7, .padding = 3, .groups = width}),
        norm_(store, part("norm"), {.features = width, .eps = kEps}),
        fc1_(store, part("mlp.fc1"), {.in = width, .out = kExpansion * width, .kernel = 1}),
        fc2_(store, part("mlp.fc2"), {.in = kExpansion * width, .out = width, .kernel = 1}),
        stochastic_depth_(stochastic_depth) {}

 protected:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = scale_(fc2_(gelu(fc1_(norm_(conv_(x))))));
    return stochastic_depth(y, stochastic_depth_) + x;
  }

 private:
  LayerScale scale_;
  Conv2d conv_;
  LayerNorm norm_;
  Conv2d fc1_, fc2_;
  double stochastic_depth_;
};

}  // namespace

ConvNext::ConvNext(Store& store, const Settings& s) : Module("") {
  const auto add = [&]<class M>(std::type_identity<M>, std::string name,
                                const typename M::Settings& settings) {
    features_.push_back(std::make_unique<M>(store, std::move(name), settings));
  };
  constexpr std::type_identity<Conv2d> conv;
  constexpr std::type_identity<LayerNorm> norm;
  add(conv, "stem.0", {.in = s.channels, .out = s.widths[0], .kernel = 4, .stride = 4});
  add(norm, "stem.1", {.features = s.widths[0], .eps = kEps});
  const int64_t all = std::accumulate(s.blocks.begin(), s.blocks.end(), int64_t{0});
  int64_t in = s.widths[0], made = 0;
  for (size_t stage = 0; stage < s.blocks.size(); ++stage) {
    const std::string name = fmt::format("stages.{}", stage);
    if (stage > 0) {
      add(norm, name + ".downsample.0", {.features = in, .eps = kEps});
      add(conv, name + ".downsample.1",
          {.in = in, .out = s.widths[stage], .kernel = 2, .stride = 2});
    }
    in = s.widths[stage];
    for (int64_t i = 0; i < s.blocks[stage]; ++i, ++made)
      features_.push_back(std::make_unique<ConvNextBlock>(
          store, fmt::format("{}.blocks.{}", name, i), in,
          s.stochastic_depth * static_cast<double>(made) / static_cast<double>(all - 1)));
  }
  head_norm_ = std::make_unique<LayerNorm>(store, "head.norm",
                                           LayerNorm::Settings{.features = in, .eps = kEps});
  head_fc_ =
      std::make_unique<Linear>(store, "head.fc", Linear::Settings{.in = in, .out = s.classes});
}

Tensor ConvNext::forward(const Tensor& x) const {
  return (*head_fc_)((*head_norm_)(global_average_pool(in_turn(features_, x))));
}

ConvNext::Settings ConvNext::of_size(const std::string& size) {
  if (size == "tiny") return {};
  if (size == "nano") return {.blocks = {2, 2, 8, 2}, .widths = {80, 160, 320, 640}};
  if (size == "pico") return {.blocks = {2, 2, 6, 2}, .widths = {64, 128, 256, 512}};
  if (size == "femto") return {.blocks = {2, 2, 6, 2}, .widths = {48, 96, 192, 384}};
  if (size == "atto") return {.blocks = {2, 2, 6, 2}, .widths = {40, 80, 160, 320}};
  throw ConfigError(
      fmt::format("convnext: sizes are atto, femto, pico, nano and tiny, not {}", size));
}

}  // namespace tessera
