#include "tessera/models/zoo/googlenet.h"

#include "tessera/layers/concat.h"
#include "tessera/layers/pool2d.h"
#include "tessera/models/zoo/conv_norm.h"

namespace tessera {

namespace {

constexpr BatchNorm2d::Settings kNorm{.eps = 0.001};

std::unique_ptr<ConvNorm> unit(Store& store, const std::string& name,
                               const Conv2d::Settings& conv) {
  return std::make_unique<ConvNorm>(store, name + ".conv", name + ".bn", conv, relu, kNorm);
}

class MaxPool final : public Module {
 public:
  explicit MaxPool(const Pool2dParams& params) : Module(""), params_(params) {}

 protected:
  Tensor forward(const Tensor& x) const override { return max_pool2d(x, params_); }

 private:
  Pool2dParams params_;
};

// Channels of a block: the branches' last convolutions, and what stands before the 3x3 ones.
struct Widths {
  int64_t one, before_second, second, before_third, third, pooled;
  int64_t sum() const { return one + second + third + pooled; }
};

class Inception final : public Module {
 public:
  Inception(Store& store, std::string name, int64_t in, const Widths& w) : Module(std::move(name)) {
    const auto narrow = [&](const char* at, int64_t from, int64_t to) {
      return unit(store, part(at), {.in = from, .out = to, .kernel = 1});
    };
    const auto wide = [&](const char* at, int64_t from, int64_t to) {
      return unit(store, part(at), {.in = from, .out = to, .kernel = 3, .padding = 1});
    };
    branches_[0].push_back(narrow("branch1", in, w.one));
    branches_[1].push_back(narrow("branch2.0", in, w.before_second));
    branches_[1].push_back(wide("branch2.1", w.before_second, w.second));
    branches_[2].push_back(narrow("branch3.0", in, w.before_third));
    branches_[2].push_back(wide("branch3.1", w.before_third, w.third));
    branches_[3].push_back(
        std::make_unique<MaxPool>(Pool2dParams{.kernel = 3, .stride = Size2(1), .padding = 1}));
    branches_[3].push_back(narrow("branch4.1", in, w.pooled));
  }

 protected:
  Tensor forward(const Tensor& x) const override {
    Tensors parts;
    for (const Chain& branch : branches_) parts.push_back(in_turn(branch, x));
    return concat(parts);
  }

 private:
  Chain branches_[4];
};

struct Step {
  const char* name;  // none: a max pool of `pool` pixels a side
  Widths widths = {};
  int64_t pool = 0;
};

// Table 1 of the paper.
constexpr Step kSteps[] = {{"inception3a", {64, 96, 128, 16, 32, 32}},
                           {"inception3b", {128, 128, 192, 32, 96, 64}},
                           {nullptr, {}, 3},
                           {"inception4a", {192, 96, 208, 16, 48, 64}},
                           {"inception4b", {160, 112, 224, 24, 64, 64}},
                           {"inception4c", {128, 128, 256, 24, 64, 64}},
                           {"inception4d", {112, 144, 288, 32, 64, 64}},
                           {"inception4e", {256, 160, 320, 32, 128, 128}},
                           {nullptr, {}, 2},
                           {"inception5a", {256, 160, 320, 32, 128, 128}},
                           {"inception5b", {384, 192, 384, 48, 128, 128}}};

}  // namespace

GoogLeNet::GoogLeNet(Store& store, const Settings& s) : Module("") {
  const auto pool = [&](int64_t kernel) {
    features_.push_back(std::make_unique<MaxPool>(
        Pool2dParams{.kernel = kernel, .stride = Size2(2), .round_up = true}));
  };
  features_.push_back(
      unit(store, "conv1", {.in = s.channels, .out = 64, .kernel = 7, .stride = 2, .padding = 3}));
  pool(3);
  features_.push_back(unit(store, "conv2", {.in = 64, .out = 64, .kernel = 1}));
  features_.push_back(unit(store, "conv3", {.in = 64, .out = 192, .kernel = 3, .padding = 1}));
  pool(3);
  int64_t in = 192;
  for (const Step& step : kSteps) {
    if (step.name == nullptr) {
      pool(step.pool);
      continue;
    }
    features_.push_back(std::make_unique<Inception>(store, step.name, in, step.widths));
    in = step.widths.sum();
  }
  if (s.dropout > 0) drop_ = std::make_unique<Dropout>("dropout", s.dropout);
  fc_ = std::make_unique<Linear>(store, "fc", Linear::Settings{.in = in, .out = s.classes});
}

Tensor GoogLeNet::forward(const Tensor& x) const {
  Tensor y = global_average_pool(in_turn(features_, x));
  if (drop_ != nullptr) y = (*drop_)(y);
  return (*fc_)(y);
}

}  // namespace tessera
