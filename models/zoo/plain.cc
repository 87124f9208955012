// Networks whose layers are one chain. In all of them the first linear layer reads whatever the
// last pool returns, so the images may have any size from the smallest on.
//
//   mlp      x is flattened, then fc1, relu, fc2, relu, ... and a last layer without relu; in
//            training, dropout follows each relu
//   lenet5   LeCun et al. 1998, with relu and maximum pooling: conv1 6@5x5 padding 2, relu, max
//            pool 2, conv2 16@5x5, relu, max pool 2, fc1 120, relu, fc2 84, relu, fc3
//   cnn_bn   for each width k: conv_k 3x3 padding 1, bn_k, relu, and a max pool 2 after every
//            second one; then flatten, dropout, fc
//   alexnet  Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014
//            (the form of one column): conv 11x11 stride 4 to 64, pool; conv 5x5 to 192, pool; conv
//            3x3 to 384, 256, 256, pool; dropout, fc 4096, dropout, fc 4096, fc classes; every pool
//            is a max pool 3 stride 2, relu after every layer but the last
//   vgg      Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image
//            Recognition", 2014, with batch norm: five groups of 3x3 convolutions, each followed by
//            batch norm and relu, a max pool 2 after each group, then fc 4096, fc 4096, fc classes
//            with dropout
//
// Names in alexnet and vgg are torchvision's: features.N (N also counts norms, relus and pools) and
// classifier.N.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "tessera/engine/structural.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

// Throws unless the images have `least` pixels a side, which leave one for the first linear layer.
void need_pixels(const char* network, int64_t least, const ModelOptions& o) {
  if (o.height < least || o.width < least)
    throw ConfigError(fmt::format("{0}: images must be at least {1}x{1} pixels, but are {2}x{3}",
                                  network, least, o.height, o.width));
}

void make_mlp(NetworkBuilder& net, const ModelOptions& o) {
  net.apply(flatten);
  int64_t in = o.height * o.width * o.channels;
  size_t i = 1;
  for (const int64_t out : o.widths) {
    net.add_with_relu<Linear>(fmt::format("fc{}", i), {.in = in, .out = out});
    net.dropout(fmt::format("drop{}", i++), *o.dropout);
    in = out;
  }
  net.add<Linear>(fmt::format("fc{}", i), {.in = in, .out = o.classes});
}

void make_lenet5(NetworkBuilder& net, const ModelOptions& o) {
  need_pixels("lenet5", 12, o);
  const auto pooled = [](int64_t side) { return (side / 2 - 4) / 2; };
  net.add_with_relu<Conv2d>("conv1", {.in = o.channels, .out = 6, .kernel = 5, .padding = 2});
  net.max_pool({.kernel = 2});
  net.add_with_relu<Conv2d>("conv2", {.in = 6, .out = 16, .kernel = 5});
  net.max_pool({.kernel = 2});
  net.apply(flatten);
  net.add_with_relu<Linear>("fc1", {.in = 16 * pooled(o.height) * pooled(o.width), .out = 120});
  net.add_with_relu<Linear>("fc2", {.in = 120, .out = 84});
  net.add<Linear>("fc3", {.in = 84, .out = o.classes});
}

void make_cnn_bn(NetworkBuilder& net, const ModelOptions& o) {
  if (o.widths.size() > 4)
    throw OptionError(
        "widths", fmt::format("cnn_bn: must have one to four widths, but has {}", o.widths.size()));
  int64_t in = o.channels, height = o.height, width = o.width;
  for (size_t i = 1; i <= o.widths.size(); ++i) {
    const Conv2d::Settings conv{.in = in, .out = o.widths[i - 1], .kernel = 3, .padding = 1};
    net.add<ConvNorm>(fmt::format("conv{}", i), fmt::format("bn{}", i), conv, relu);
    in = conv.out;
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

// Returns the pixels along a side of the last pool's result.
int64_t alexnet_pooled(int64_t side) {
  int64_t pixels = (side + 2 * 2 - 11) / 4 + 1;
  for (int i = 0; i < 3; ++i) pixels = (pixels - 3) / 2 + 1;
  return pixels;
}

void make_alexnet(NetworkBuilder& net, const ModelOptions& o) {
  need_pixels("alexnet", 63, o);
  const auto conv = [&](const char* name, const Conv2d::Settings& settings) {
    net.add_with_relu<Conv2d>(name, settings);
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
  net.add_with_relu<Linear>(
      "classifier.1",
      {.in = 256 * alexnet_pooled(o.height) * alexnet_pooled(o.width), .out = 4096});
  net.dropout("classifier.3", *o.dropout);
  net.add_with_relu<Linear>("classifier.4", {.in = 4096, .out = 4096});
  net.add<Linear>("classifier.6", {.in = 4096, .out = o.classes});
}

// `groups`: convolutions of each group, with 64, 128, 256, 512, 512 filters.
void make_vgg(const std::vector<int64_t>& groups, NetworkBuilder& net, const ModelOptions& o) {
  need_pixels("vgg", 32, o);
  int64_t in = o.channels, out = 64, layer = 0;
  for (const int64_t convs : groups) {
    for (int64_t i = 0; i < convs; ++i, layer += 3, in = out) {
      net.add<Conv2d>(fmt::format("features.{}", layer),
                      {.in = in, .out = out, .kernel = 3, .padding = 1});
      net.add_with_relu<BatchNorm2d>(fmt::format("features.{}", layer + 1), {.channels = out});
    }
    net.max_pool({.kernel = 2});
    ++layer;
    out = std::min<int64_t>(2 * out, 512);
  }
  net.apply(flatten);
  net.add_with_relu<Linear>("classifier.0",
                            {.in = in * (o.height / 32) * (o.width / 32), .out = 4096});
  net.dropout("classifier.2", *o.dropout);
  net.add_with_relu<Linear>("classifier.3", {.in = 4096, .out = 4096});
  net.dropout("classifier.5", *o.dropout);
  net.add<Linear>("classifier.6", {.in = 4096, .out = o.classes});
}

Network vgg_of(int depth, const std::vector<int64_t>& groups, std::vector<TimedAt> timed = {}) {
  // timm's first two linear layers are convolutions, over all pixels and over one.
  return {fmt::format("vgg{}_bn", depth),
          {.dropout = 0.5},
          std::bind_front(make_vgg, groups),
          {{"torchvision"},
           {"timm",
            "",
            {{"classifier.0", "pre_logits.fc1"},
             {"classifier.3", "pre_logits.fc2"},
             {"classifier.6", "head.fc"}}}},
          std::move(timed)};
}

}  // namespace

Networks zoo::mlp() { return {{"mlp", {.dropout = 0, .widths = {256, 128}}, make_mlp}}; }

Networks zoo::lenet5() { return {{"lenet5", {}, make_lenet5, {}, {{28, 128}}}}; }

Networks zoo::cnn_bn() {
  return {{"cnn_bn", {.dropout = 0, .widths = {32, 32, 64, 64}}, make_cnn_bn}};
}

Networks zoo::alexnet() {
  return {{"alexnet", {.dropout = 0.5}, make_alexnet, {{"torchvision"}}, {{224, 16}}}};
}

Networks zoo::vgg() {
  return {vgg_of(11, {1, 1, 2, 2, 2}, {{32, 64}, {224, 8}}), vgg_of(13, {2, 2, 2, 2, 2}),
          vgg_of(16, {2, 2, 3, 3, 3}), vgg_of(19, {2, 2, 4, 4, 4})};
}

}  // namespace tessera
