// ShuffleNet v2 (Ma et al., "ShuffleNet V2: Practical Guidelines for Efficient CNN Architecture
// Design", 2018): a stem that quarters the image, three stages, a 1x1 convolution, global average
// pooling and a linear layer. A block convolves half of the channels, passes on the others and
// interleaves both halves; the first block of a stage halves the image and convolves all channels
// twice:
//
//   branch   relu(norm(conv 1x1 (norm(depthwise 3x3 (relu(norm(conv 1x1 (x))))))))
//
// Names: conv1.0, stage2.0.branch1.0, stage2.0.branch2.0, ..., conv5.0, fc, as in torchvision; a
// norm has the number after its convolution's.
#include <fmt/format.h>

#include "tessera/layers/ops/channel_shuffle.h"
#include "tessera/layers/ops/concat.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

constexpr int64_t kShuffleNetStem = 24;
constexpr int64_t kShuffleNetBlocks[] = {4, 8, 4};

class ShuffleBlock final : public Module {
 public:
  // `in`: channels of x; read only if the block halves the image.
  ShuffleBlock(Store& store, std::string name, int64_t in, int64_t out, bool halves)
      : Module(std::move(name)), half_(out / 2), halves_(halves) {
    if (halves) {
      depthwise(store, branch1_, "branch1.0", "branch1.1", in);
      pointwise(store, branch1_, "branch1.2", "branch1.3", in);
    }
    pointwise(store, branch2_, "branch2.0", "branch2.1", halves ? in : half_);
    depthwise(store, branch2_, "branch2.3", "branch2.4", half_);
    pointwise(store, branch2_, "branch2.5", "branch2.6", half_);
  }

 private:
  Tensor forward(const Tensor& x) const override {
    const Tensor y =
        halves_ ? concat({branch1_(x), branch2_(x)})
                : concat({slice(x, -1, 0, half_), branch2_(slice(x, -1, half_, 2 * half_))});
    return channel_shuffle(y, 2);
  }

  void add(Store& store, Sequential& branch, const char* conv, const char* norm,
           const Conv2d::Settings& settings, Activation activation) {
    branch.add<ConvNorm>(store, part(conv), part(norm), settings, activation);
  }
  void pointwise(Store& store, Sequential& branch, const char* conv, const char* norm, int64_t in) {
    add(store, branch, conv, norm, {.in = in, .out = half_, .kernel = 1}, relu);
  }
  void depthwise(Store& store, Sequential& branch, const char* conv, const char* norm,
                 int64_t channels) {
    add(store, branch, conv, norm,
        {.in = channels,
         .out = channels,
         .kernel = 3,
         .stride = halves_ ? 2 : 1,
         .padding = 1,
         .groups = channels},
        nullptr);
  }

  int64_t half_;
  bool halves_;
  Sequential branch1_, branch2_;
};

// `widths`: channels of each stage, even. `last`: channels of the 1x1 convolution at the end.
void make_shufflenet_v2(NetworkBuilder& net, const ModelOptions& o,
                        const std::vector<int64_t>& widths, int64_t last) {
  const auto unit = [&](const std::string& name, const Conv2d::Settings& conv) {
    net.add<ConvNorm>(name + ".0", name + ".1", conv, relu);
  };
  unit("conv1", {.in = o.channels, .out = kShuffleNetStem, .kernel = 3, .stride = 2, .padding = 1});
  net.max_pool({.kernel = 3, .stride = 2, .padding = 1});
  int64_t in = kShuffleNetStem;
  for (size_t stage = 0; stage < widths.size(); ++stage) {
    for (int64_t i = 0; i < kShuffleNetBlocks[stage]; ++i)
      net.add<ShuffleBlock>(fmt::format("stage{}.{}", stage + 2, i), in, widths[stage], i == 0);
    in = widths[stage];
  }
  unit("conv5", {.in = in, .out = last, .kernel = 1});
  net.apply(global_average_pool);
  net.add<Linear>("fc", {.in = last, .out = o.classes});
}

Network shufflenet_of(const char* size, const std::vector<int64_t>& widths, int64_t last,
                      std::vector<TimedAt> timed = {}) {
  return {
      fmt::format("shufflenet_v2_{}", size),
      {},
      [=](NetworkBuilder& net, const ModelOptions& o) { make_shufflenet_v2(net, o, widths, last); },
      {{"torchvision"}},
      std::move(timed)};
}

}  // namespace

Networks zoo::shufflenet_v2() {
  return {shufflenet_of("x0_5", {48, 96, 192}, 1024, {{224, 16}}),
          shufflenet_of("x1_0", {116, 232, 464}, 1024, {{224, 16}}),
          shufflenet_of("x1_5", {176, 352, 704}, 1024),
          shufflenet_of("x2_0", {244, 488, 976}, 2048)};
}

}  // namespace tessera
