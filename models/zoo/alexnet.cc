#include "tessera/models/zoo/alexnet.h"

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/activation.h"
#include "tessera/layers/pool2d.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr Pool2dParams kPool{.kernel = 3, .stride = 2};
constexpr int64_t kSmallest = 63;  // leaves one pixel for the first fc

// Pixels along a side that come out of the last pool.
int64_t pooled(int64_t side) {
  int64_t pixels = (side + 2 * 2 - 11) / 4 + 1;
  for (int i = 0; i < 3; ++i) pixels = (pixels - 3) / 2 + 1;
  return pixels;
}

}  // namespace

AlexNet::AlexNet(Store& store, const Settings& s) : Module("") {
  if (s.height < kSmallest || s.width < kSmallest)
    throw ConfigError(fmt::format("alexnet: images must be at least {0}x{0} pixels, are {1}x{2}",
                                  kSmallest, s.height, s.width));
  const auto conv = [&](const char* name, const Conv2d::Settings& settings) {
    convs_.push_back(std::make_unique<Conv2d>(store, name, settings));
  };
  conv("features.0", {.in = s.channels, .out = 64, .kernel = 11, .stride = 4, .padding = 2});
  conv("features.3", {.in = 64, .out = 192, .kernel = 5, .padding = 2});
  conv("features.6", {.in = 192, .out = 384, .kernel = 3, .padding = 1});
  conv("features.8", {.in = 384, .out = 256, .kernel = 3, .padding = 1});
  conv("features.10", {.in = 256, .out = 256, .kernel = 3, .padding = 1});
  const auto fc = [&](const char* name, int64_t in, int64_t out) {
    return std::make_unique<Linear>(store, name, Linear::Settings{.in = in, .out = out});
  };
  fc1_ = fc("classifier.1", 256 * pooled(s.height) * pooled(s.width), 4096);
  fc2_ = fc("classifier.4", 4096, 4096);
  fc3_ = fc("classifier.6", 4096, s.classes);
  if (s.dropout > 0) {
    drop1_ = std::make_unique<Dropout>("classifier.0", s.dropout);
    drop2_ = std::make_unique<Dropout>("classifier.3", s.dropout);
  }
}

Tensor AlexNet::forward(const Tensor& x) const {
  Tensor y = max_pool2d(relu((*convs_[0])(x)), kPool);
  y = max_pool2d(relu((*convs_[1])(y)), kPool);
  for (size_t i = 2; i < convs_.size(); ++i) y = relu((*convs_[i])(y));
  y = flatten(max_pool2d(y, kPool));
  if (drop1_ != nullptr) y = (*drop1_)(y);
  y = relu((*fc1_)(y));
  if (drop2_ != nullptr) y = (*drop2_)(y);
  return (*fc3_)(relu((*fc2_)(y)));
}

}  // namespace tessera
