// A small convolutional network with batch norm:
//
//   x [n, height, width, channels] -> for each width k: conv_k 3x3 padding 1, bn_k, relu, and a max
//     pool 2 after every second one -> flatten, dropout -> fc [n, classes]
#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/layers/modules.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

void make_cnn_bn(NetworkBuilder& net, const ModelOptions& o) {
  if (o.widths.size() > 4)
    throw OptionError(
        "widths", fmt::format("cnn_bn: must have one to four widths, but has {}", o.widths.size()));
  int64_t in = o.channels, height = o.height, width = o.width;
  for (size_t i = 1; i <= o.widths.size(); ++i) {
    const int64_t out = o.widths[i - 1];
    net.add<Conv2d>(fmt::format("conv{}", i),
                    {.in = in, .out = out, .kernel = 3, .padding = 1, .bias = false});
    net.add<BatchNorm2d>(fmt::format("bn{}", i), {.channels = out});
    net.apply(relu);
    in = out;
    if (i % 2 != 0) continue;
    net.max_pool({.kernel = 2});
    height /= 2, width /= 2;
  }
  if (height < 1 || width < 1)
    throw ConfigError(fmt::format("cnn_bn: {} convolutions need a larger image than {}x{}",
                                  o.widths.size(), o.height, o.width));
  net.apply(flatten);
  net.dropout("drop", *o.dropout);
  net.add<Linear>("fc", {.in = height * width * in, .out = o.classes});
}

}  // namespace

Networks zoo::cnn_bn() {
  return {{"cnn_bn", {.dropout = 0, .widths = {32, 32, 64, 64}}, make_cnn_bn}};
}

}  // namespace tessera
