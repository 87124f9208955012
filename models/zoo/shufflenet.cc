#include "tessera/models/zoo/shufflenet.h"

#include <fmt/format.h>

#include "tessera/layers/channel_shuffle.h"
#include "tessera/layers/concat.h"
#include "tessera/layers/pool2d.h"
#include "tessera/layers/slice.h"
#include "tessera/models/zoo/conv_norm.h"

namespace tessera {

namespace {

constexpr int64_t kShuffleNetStem = 24;
constexpr int64_t kBlocks[] = {4, 8, 4};

class ShuffleBlock final : public Module {
 public:
  // in: channels of x when the block halves the image, else those of y.
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

 protected:
  Tensor forward(const Tensor& x) const override {
    const Tensor y =
        halves_
            ? concat({in_turn(branch1_, x), in_turn(branch2_, x)})
            : concat({slice(x, -1, 0, half_), in_turn(branch2_, slice(x, -1, half_, 2 * half_))});
    return channel_shuffle(y, 2);
  }

 private:
  void add(Store& store, Chain& branch, const char* conv, const char* norm,
           const Conv2d::Settings& settings, Activation activation) {
    branch.push_back(
        std::make_unique<ConvNorm>(store, part(conv), part(norm), settings, activation));
  }
  void pointwise(Store& store, Chain& branch, const char* conv, const char* norm, int64_t in) {
    add(store, branch, conv, norm, {.in = in, .out = half_, .kernel = 1}, relu);
  }
  void depthwise(Store& store, Chain& branch, const char* conv, const char* norm,
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
  Chain branch1_, branch2_;
};

}  // namespace

ShuffleNetV2::ShuffleNetV2(Store& store, const Settings& s) : Module("") {
  conv1_ = std::make_unique<ConvNorm>(
      store, "conv1.0", "conv1.1",
      Conv2d::Settings{
          .in = s.channels, .out = kShuffleNetStem, .kernel = 3, .stride = 2, .padding = 1},
      relu);
  int64_t in = kShuffleNetStem;
  for (size_t stage = 0; stage < s.widths.size(); ++stage) {
    for (int64_t i = 0; i < kBlocks[stage]; ++i)
      blocks_.push_back(std::make_unique<ShuffleBlock>(
          store, fmt::format("stage{}.{}", stage + 2, i), in, s.widths[stage], i == 0));
    in = s.widths[stage];
  }
  conv5_ = std::make_unique<ConvNorm>(store, "conv5.0", "conv5.1",
                                      Conv2d::Settings{.in = in, .out = s.last, .kernel = 1}, relu);
  fc_ = std::make_unique<Linear>(store, "fc", Linear::Settings{.in = s.last, .out = s.classes});
}

Tensor ShuffleNetV2::forward(const Tensor& x) const {
  const Tensor y = max_pool2d((*conv1_)(x), {.kernel = 3, .stride = 2, .padding = 1});
  return (*fc_)(global_average_pool((*conv5_)(in_turn(blocks_, y))));
}

}  // namespace tessera
