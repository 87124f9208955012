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
#include <functional>

#include <fmt/format.h>

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
    const auto add = [&](int branch, int at, const Conv2d::Settings& conv, Activation activation) {
      const auto name = [&](int i) { return part(fmt::format("branch{}.{}", branch, i)); };
      (branch == 1 ? branch1_ : branch2_)
          .add<ConvNorm>(store, name(at), name(at + 1), conv, activation);
    };
    const auto pointwise = [&](int branch, int at, int64_t from) {
      add(branch, at, {.in = from, .out = half_, .kernel = 1}, relu);
    };
    const auto depthwise = [&](int branch, int at, int64_t channels) {
      add(branch, at,
          {.in = channels,
           .out = channels,
           .kernel = 3,
           .stride = halves ? 2 : 1,
           .padding = 1,
           .groups = channels},
          nullptr);
    };
    if (halves) {
      depthwise(1, 0, in);
      pointwise(1, 2, in);
    }
    pointwise(2, 0, halves ? in : half_);
    depthwise(2, 3, half_);
    pointwise(2, 5, half_);
  }

 private:
  Tensor forward(const Tensor& x) const override {
    const Tensor y =
        halves_ ? concat({branch1_(x), branch2_(x)})
                : concat({slice(x, -1, 0, half_), branch2_(slice(x, -1, half_, 2 * half_))});
    return channel_shuffle(y, 2);
  }

  int64_t half_;
  bool halves_;
  Sequential branch1_, branch2_;
};

// `widths`: channels of each stage, even. `last`: channels of the 1x1 convolution at the end.
void make_shufflenet_v2(const std::vector<int64_t>& widths, int64_t last, NetworkBuilder& net,
                        const ModelOptions& o) {
  net.conv_norm("conv1",
                {.in = o.channels, .out = kShuffleNetStem, .kernel = 3, .stride = 2, .padding = 1},
                relu);
  net.max_pool({.kernel = 3, .stride = 2, .padding = 1});
  int64_t in = kShuffleNetStem;
  for (size_t stage = 0; stage < widths.size(); ++stage) {
    for (int64_t i = 0; i < kShuffleNetBlocks[stage]; ++i)
      net.add<ShuffleBlock>(fmt::format("stage{}.{}", stage + 2, i), in, widths[stage], i == 0);
    in = widths[stage];
  }
  net.conv_norm("conv5", {.in = in, .out = last, .kernel = 1}, relu);
  net.apply(global_average_pool);
  net.add<Linear>("fc", {.in = last, .out = o.classes});
}

Network shufflenet_of(const char* size, const std::vector<int64_t>& widths, int64_t last,
                      std::vector<TimedAt> timed = {}) {
  return {fmt::format("shufflenet_v2_{}", size),
          {},
          std::bind_front(make_shufflenet_v2, widths, last),
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
