#include "tessera/models/zoo/lenet.h"

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/activation.h"
#include "tessera/layers/pool2d.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

constexpr int64_t kSmallestImage = 12;  // leaves one pixel for fc1

// Pixels along a side that come out of the second pool.
int64_t pooled(const LeNet5::Settings& s, int64_t side) {
  if (side < kSmallestImage) {
    throw ConfigError(fmt::format("lenet5: images must be at least {}x{} pixels, are {}x{}",
                                  kSmallestImage, kSmallestImage, s.height, s.width));
  }
  return (side / 2 - 4) / 2;
}

}  // namespace

LeNet5::LeNet5(Store& store, const Settings& s)
    : Module(""),
      conv1_(store, "conv1", {.in = s.channels, .out = 6, .kernel = 5, .padding = 2}),
      conv2_(store, "conv2", {.in = 6, .out = 16, .kernel = 5}),
      fc1_(store, "fc1", {.in = 16 * pooled(s, s.height) * pooled(s, s.width), .out = 120}),
      fc2_(store, "fc2", {.in = 120, .out = 84}),
      fc3_(store, "fc3", {.in = 84, .out = s.classes}) {}

Tensor LeNet5::forward(const Tensor& x) const {
  Tensor y = max_pool2d(relu(conv1_(x)), {.kernel = 2});
  y = max_pool2d(relu(conv2_(y)), {.kernel = 2});
  y = relu(fc1_(flatten(y)));
  return fc3_(relu(fc2_(y)));
}

}  // namespace tessera
