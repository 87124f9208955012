// AlexNet (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014: the
// form of one column):
//
//   conv 11x11 stride 4 to 64, pool; conv 5x5 to 192, pool; conv 3x3 to 384, 256, 256, pool;
//   dropout, fc 4096, dropout, fc 4096, fc classes; every pool is a max pool 3 stride 2, relu after
//   every layer but the last
//
// Names: features.0, .3, .6, .8, .10 and classifier.1, .4, .6, as in torchvision. The images need
// not have 224 pixels: the first fc reads whatever the last pool returns.
#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/modules.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// Returns the pixels along a side of the last pool's result.
int64_t alexnet_pooled(int64_t side) {
  int64_t pixels = (side + 2 * 2 - 11) / 4 + 1;
  for (int i = 0; i < 3; ++i) pixels = (pixels - 3) / 2 + 1;
  return pixels;
}

void make_alexnet(NetworkBuilder& net, const ModelOptions& o) {
  constexpr int64_t kMin = 63;  // leaves one pixel for the first fc
  if (o.height < kMin || o.width < kMin)
    throw ConfigError(
        fmt::format("alexnet: images must be at least {0}x{0} pixels, but are {1}x{2}", kMin,
                    o.height, o.width));
  const auto conv = [&](const char* name, const Conv2d::Settings& settings) {
    net.add<Conv2d>(name, settings);
    net.apply(relu);
  };
  const auto pool = [&] { net.max_pool({.kernel = 3, .stride = 2}); };
  conv("features.0", {.in = o.channels, .out = 64, .kernel = 11, .stride = 4, .padding = 2});
  pool();
  conv("features.3", {.in = 64, .out = 192, .kernel = 5, .padding = 2});
  pool();
  conv("features.6", {.in = 192, .out = 384, .kernel = 3, .padding = 1});
  conv("features.8", {.in = 384, .out = 256, .kernel = 3, .padding = 1});
  conv("features.10", {.in = 256, .out = 256, .kernel = 3, .padding = 1});
  pool();
  net.apply(flatten);
  net.dropout("classifier.0", *o.dropout);
  net.add<Linear>("classifier.1",
                  {.in = 256 * alexnet_pooled(o.height) * alexnet_pooled(o.width), .out = 4096});
  net.apply(relu);
  net.dropout("classifier.3", *o.dropout);
  net.add<Linear>("classifier.4", {.in = 4096, .out = 4096});
  net.apply(relu);
  net.add<Linear>("classifier.6", {.in = 4096, .out = o.classes});
}

}  // namespace

Networks zoo::alexnet() {
  return {{"alexnet", {.dropout = 0.5}, make_alexnet, {{"torchvision"}}, {{224, 16}}}};
}

}  // namespace tessera
