#include "tessera/models/zoo/efficientnet.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/layers/pool2d.h"
#include "tessera/models/zoo/conv_norm.h"
#include "tessera/models/zoo/inverted_residual.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

struct Stage {
  int64_t expansion, kernel, stride, channels, blocks;
};

// Table 1 of the paper.
constexpr Stage kStages[] = {{1, 3, 1, 16, 1}, {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2},
                             {6, 3, 2, 80, 3}, {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4},
                             {6, 3, 1, 320, 1}};
constexpr int64_t kStem = 32;

}  // namespace

EfficientNet::EfficientNet(Store& store, const Settings& s) : Module("") {
  const auto scaled = [&](int64_t channels) {
    return multiple_of_8(static_cast<double>(channels) * s.width);
  };
  const auto count = [&](const Stage& stage) {
    return static_cast<int64_t>(std::ceil(static_cast<double>(stage.blocks) * s.depth));
  };
  const auto unit = [&](std::string name, const Conv2d::Settings& conv) {
    features_.push_back(std::make_unique<ConvNorm>(store, name + ".0", name + ".1", conv, silu));
  };
  int64_t in = scaled(kStem), all = 0, made = 0;
  for (const Stage& stage : kStages) all += count(stage);
  unit("features.0", {.in = s.channels, .out = in, .kernel = 3, .stride = 2, .padding = 1});
  int number = 0;
  for (const Stage& stage : kStages) {
    ++number;
    for (int64_t i = 0; i < count(stage); ++i, ++made) {
      const int64_t out = scaled(stage.channels);
      features_.push_back(std::make_unique<InvertedResidual>(
          store, fmt::format("features.{}.{}", number, i),
          InvertedResidual::Settings{
              .in = in,
              .wide = in * stage.expansion,
              .out = out,
              .kernel = stage.kernel,
              .stride = i == 0 ? stage.stride : 1,
              .squeeze = std::max<int64_t>(1, in / 4),
              .activation = silu,
              .squeeze_activation = silu,
              .stochastic_depth =
                  s.stochastic_depth * static_cast<double>(made) / static_cast<double>(all)}));
      in = out;
    }
  }
  unit(fmt::format("features.{}", number + 1), {.in = in, .out = 4 * in, .kernel = 1});
  if (s.dropout > 0) drop_ = std::make_unique<Dropout>("classifier.0", s.dropout);
  classifier_ = std::make_unique<Linear>(store, "classifier.1",
                                         Linear::Settings{.in = 4 * in, .out = s.classes});
}

Tensor EfficientNet::forward(const Tensor& x) const {
  Tensor y = global_average_pool(in_turn(features_, x));
  if (drop_ != nullptr) y = (*drop_)(y);
  return (*classifier_)(y);
}

EfficientNet::Settings EfficientNet::of_size(int size) {
  constexpr double kFactors[][3] = {// width, depth, dropout
                                    {1, 1, 0.2},
                                    {1, 1.1, 0.2},
                                    {1.1, 1.2, 0.3},
                                    {1.2, 1.4, 0.3},
                                    {1.4, 1.8, 0.4}};
  if (size < 0 || size > 4)
    throw ConfigError(fmt::format("efficientnet: sizes are b0 to b4, not b{}", size));
  const auto& [width, depth, dropout] = kFactors[size];
  return {.width = width, .depth = depth, .dropout = dropout};
}

}  // namespace tessera
