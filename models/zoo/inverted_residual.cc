#include "tessera/models/zoo/inverted_residual.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/layers/ops/dropout.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

InvertedResidual::InvertedResidual(Store& store, std::string name, const Settings& s)
    : Module(std::move(name)),
      adds_(s.stride == 1 && s.in == s.out),
      stochastic_depth_(s.stochastic_depth) {
  const auto unit = [&](const Conv2d::Settings& conv, Activation activation) {
    const std::string at = part(fmt::format("block.{}", block_.modules().size()));
    block_.add<ConvNorm>(store, at + ".0", at + ".1", conv, activation, s.norm);
  };
  if (s.wide != s.in) unit({.in = s.in, .out = s.wide, .kernel = 1}, s.activation);
  unit({.in = s.wide,
        .out = s.wide,
        .kernel = s.kernel,
        .stride = s.stride,
        .padding = s.kernel / 2,
        .groups = s.wide},
       s.activation);
  if (s.squeeze > 0)
    block_.add<SqueezeExcitation>(store, part(fmt::format("block.{}", block_.modules().size())),
                                  SqueezeExcitation::Settings{.channels = s.wide,
                                                              .squeeze = s.squeeze,
                                                              .activation = s.squeeze_activation,
                                                              .gate = s.gate});
  unit({.in = s.wide, .out = s.out, .kernel = 1}, nullptr);
}

Tensor InvertedResidual::forward(const Tensor& x) const {
  const Tensor y = block_(x);
  return adds_ ? stochastic_depth(y, stochastic_depth_) + x : y;
}

int64_t multiple_of_8(double channels) {
  const int64_t nearest = std::max<int64_t>(8, static_cast<int64_t>(channels + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

}  // namespace tessera
