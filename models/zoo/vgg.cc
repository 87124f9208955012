// VGG (Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
// Recognition", 2014) with batch norm: five groups of 3x3 convolutions, each followed by batch norm
// and relu, a maximum pool 2 after each group, then fc 4096, fc 4096, fc classes with dropout.
//
// Names: features.N (N also counts norms, relus and pools) and classifier.0, .3, .6, as in
// torchvision. The first fc reads whatever the last pool returns.
#include <algorithm>

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

// `groups`: convolutions of each group, with 64, 128, 256, 512, 512 filters.
void make_vgg(NetworkBuilder& net, const ModelOptions& o, const std::vector<int64_t>& groups) {
  constexpr int64_t kMin = 32;  // leaves one pixel for the first fc
  if (o.height < kMin || o.width < kMin)
    throw ConfigError(fmt::format("vgg: images must be at least {0}x{0} pixels, but are {1}x{2}",
                                  kMin, o.height, o.width));
  int64_t in = o.channels, out = 64, layer = 0;
  for (const int64_t convs : groups) {
    for (int64_t i = 0; i < convs; ++i, layer += 3, in = out) {
      net.add<Conv2d>(fmt::format("features.{}", layer),
                      {.in = in, .out = out, .kernel = 3, .padding = 1});
      net.add<BatchNorm2d>(fmt::format("features.{}", layer + 1), {.channels = out});
      net.apply(relu);
    }
    net.max_pool({.kernel = 2});
    ++layer;
    out = std::min<int64_t>(2 * out, 512);
  }
  net.apply(flatten);
  net.add<Linear>("classifier.0", {.in = in * (o.height / 32) * (o.width / 32), .out = 4096});
  net.apply(relu);
  net.dropout("classifier.2", *o.dropout);
  net.add<Linear>("classifier.3", {.in = 4096, .out = 4096});
  net.apply(relu);
  net.dropout("classifier.5", *o.dropout);
  net.add<Linear>("classifier.6", {.in = 4096, .out = o.classes});
}

Network vgg_of(int depth, const std::vector<int64_t>& groups, std::vector<TimedAt> timed = {}) {
  // timm's first two linear layers are convolutions, over all pixels and over one.
  return {fmt::format("vgg{}_bn", depth),
          {.dropout = 0.5},
          [groups](NetworkBuilder& net, const ModelOptions& o) { make_vgg(net, o, groups); },
          {{"torchvision"},
           {"timm",
            "",
            {{"classifier.0", "pre_logits.fc1"},
             {"classifier.3", "pre_logits.fc2"},
             {"classifier.6", "head.fc"}}}},
          std::move(timed)};
}

}  // namespace

Networks zoo::vgg() {
  return {vgg_of(11, {1, 1, 2, 2, 2}, {{32, 64}, {224, 8}}), vgg_of(13, {2, 2, 2, 2, 2}),
          vgg_of(16, {2, 2, 3, 3, 3}), vgg_of(19, {2, 2, 4, 4, 4})};
}

}  // namespace tessera
