// LeNet-5 in its modern form (LeCun et al. 1998, with relu and maximum pooling):
//
//   x [n, height, width, channels] -> conv1 6@5x5 padding 2, relu, max pool 2
//     -> conv2 16@5x5, relu, max pool 2 -> fc1 120, relu -> fc2 84, relu -> fc3 [n, classes]
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

void make_lenet5(NetworkBuilder& net, const ModelOptions& o) {
  constexpr int64_t kMin = 12;  // leaves one pixel for fc1
  if (o.height < kMin || o.width < kMin)
    throw ConfigError(fmt::format("lenet5: images must be at least {0}x{0} pixels, but are {1}x{2}",
                                  kMin, o.height, o.width));
  const auto pooled = [](int64_t side) { return (side / 2 - 4) / 2; };
  net.add<Conv2d>("conv1", {.in = o.channels, .out = 6, .kernel = 5, .padding = 2});
  net.apply(relu);
  net.max_pool({.kernel = 2});
  net.add<Conv2d>("conv2", {.in = 6, .out = 16, .kernel = 5});
  net.apply(relu);
  net.max_pool({.kernel = 2});
  net.apply(flatten);
  net.add<Linear>("fc1", {.in = 16 * pooled(o.height) * pooled(o.width), .out = 120});
  net.apply(relu);
  net.add<Linear>("fc2", {.in = 120, .out = 84});
  net.apply(relu);
  net.add<Linear>("fc3", {.in = 84, .out = o.classes});
}

}  // namespace

Networks zoo::lenet5() { return {{"lenet5", {}, make_lenet5, {}, {{28, 128}}}}; }

}  // namespace tessera
