#include "tessera/models/zoo/vgg.h"

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/activation.h"
#include "tessera/layers/pool2d.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr int64_t kFilters[] = {64, 128, 256, 512, 512};
constexpr int64_t kSmallestVggImage = 32;  // leaves one pixel for the first fc

}  // namespace

Vgg::Vgg(Store& store, const Settings& s) : Module(""), groups_(s.convs) {
  if (s.height < kSmallestVggImage || s.width < kSmallestVggImage)
    throw ConfigError(fmt::format("vgg: images must be at least {0}x{0} pixels, are {1}x{2}",
                                  kSmallestVggImage, s.height, s.width));
  if (groups_.size() != std::size(kFilters))
    throw ConfigError(fmt::format("vgg: has five groups of convolutions, not {}", groups_.size()));
  int64_t in = s.channels, layer = 0;
  for (size_t group = 0; group < groups_.size(); ++group, ++layer) {
    for (int64_t i = 0; i < groups_[group]; ++i, layer += 3) {
      convs_.push_back(std::make_unique<Conv2d>(
          store, fmt::format("features.{}", layer),
          Conv2d::Settings{.in = in, .out = kFilters[group], .kernel = 3, .padding = 1}));
      norms_.push_back(
          std::make_unique<BatchNorm2d>(store, fmt::format("features.{}", layer + 1),
                                        BatchNorm2d::Settings{.channels = kFilters[group]}));
      in = kFilters[group];
    }
  }
  const auto fc = [&](const char* name, int64_t from, int64_t to) {
    return std::make_unique<Linear>(store, name, Linear::Settings{.in = from, .out = to});
  };
  fc1_ = fc("classifier.0", in * (s.height / 32) * (s.width / 32), 4096);
  fc2_ = fc("classifier.3", 4096, 4096);
  fc3_ = fc("classifier.6", 4096, s.classes);
  if (s.dropout > 0) {
    drop1_ = std::make_unique<Dropout>("classifier.2", s.dropout);
    drop2_ = std::make_unique<Dropout>("classifier.5", s.dropout);
  }
}

Tensor Vgg::forward(const Tensor& x) const {
  Tensor y = x;
  size_t i = 0;
  for (const int64_t convs : groups_) {
    for (const size_t end = i + static_cast<size_t>(convs); i < end; ++i)
      y = relu((*norms_[i])((*convs_[i])(y)));
    y = max_pool2d(y, {.kernel = 2});
  }
  y = relu((*fc1_)(flatten(y)));
  if (drop1_ != nullptr) y = (*drop1_)(y);
  y = relu((*fc2_)(y));
  if (drop2_ != nullptr) y = (*drop2_)(y);
  return (*fc3_)(y);
}

Vgg::Settings Vgg::of_depth(int depth) {
  switch (depth) {
    case 11:
      return {.convs = {1, 1, 2, 2, 2}};
    case 13:
      return {.convs = {2, 2, 2, 2, 2}};
    case 16:
      return {.convs = {2, 2, 3, 3, 3}};
    case 19:
      return {.convs = {2, 2, 4, 4, 4}};
    default:
      throw ConfigError(fmt::format("vgg: depths are 11, 13, 16 and 19, not {}", depth));
  }
}

}  // namespace tessera
