// GoogLeNet (Szegedy et al., "Going Deeper with Convolutions", 2014), with batch norm after every
// convolution and without the two auxiliary classifiers: a stem, nine blocks of four concatenated
// branches, global average pooling, dropout and a linear layer.
//
//   branches   conv 1x1;  conv 1x1, conv 3x3;  conv 1x1, conv 3x3;  max pool 3, conv 1x1
//
// The third branch has 3x3 where the paper has 5x5, as in torchvision. Names, also torchvision's:
// conv1.conv, conv1.bn, inception3a.branch2.0.conv, inception3a.branch4.1.bn, ..., fc.
#include "tessera/layers/ops/concat.h"
#include "tessera/models/zoo/networks.h"
#include "tessera/models/zoo/parts.h"

namespace tessera {

namespace {

constexpr BatchNorm2d::Settings kGoogLeNetNorm{.eps = 0.001};

// Channels of a block: of the branches' last convolutions, and of those before the 3x3 ones.
struct InceptionWidths {
  int64_t one, before_second, second, before_third, third, pooled;
  int64_t sum() const { return one + second + third + pooled; }
};

class Inception final : public Module {
 public:
  Inception(Store& store, std::string name, int64_t in, const InceptionWidths& w)
      : Module(std::move(name)) {
    const auto unit = [&](int branch, const char* at, const Conv2d::Settings& conv) {
      branches_[branch].add<ConvNorm>(store, part(at) + ".conv", part(at) + ".bn", conv, relu,
                                      kGoogLeNetNorm);
    };
    unit(0, "branch1", {.in = in, .out = w.one, .kernel = 1});
    unit(1, "branch2.0", {.in = in, .out = w.before_second, .kernel = 1});
    unit(1, "branch2.1", {.in = w.before_second, .out = w.second, .kernel = 3, .padding = 1});
    unit(2, "branch3.0", {.in = in, .out = w.before_third, .kernel = 1});
    unit(2, "branch3.1", {.in = w.before_third, .out = w.third, .kernel = 3, .padding = 1});
    branches_[3].add<FunctionModule>("", [](const Tensor& x) {
      return max_pool2d(x, {.kernel = 3, .stride = Size2(1), .padding = 1});
    });
    unit(3, "branch4.1", {.in = in, .out = w.pooled, .kernel = 1});
  }

 private:
  Tensor forward(const Tensor& x) const override {
    Tensors parts;
    for (const Sequential& branch : branches_) parts.push_back(branch(x));
    return concat(parts);
  }

  Sequential branches_[4];
};

struct GoogLeNetStep {
  const char* name;  // null: a max pool of `pool` pixels a side
  InceptionWidths widths = {};
  int64_t pool = 0;
};

// Table 1 of the paper.
constexpr GoogLeNetStep kGoogLeNetSteps[] = {{"inception3a", {64, 96, 128, 16, 32, 32}},
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

void make_googlenet(NetworkBuilder& net, const ModelOptions& o) {
  const auto unit = [&](const std::string& name, const Conv2d::Settings& conv) {
    net.add<ConvNorm>(name + ".conv", name + ".bn", conv, relu, kGoogLeNetNorm);
  };
  const auto pool = [&](int64_t kernel) {
    net.max_pool({.kernel = kernel, .stride = Size2(2), .ceil_mode = true});
  };
  unit("conv1", {.in = o.channels, .out = 64, .kernel = 7, .stride = 2, .padding = 3});
  pool(3);
  unit("conv2", {.in = 64, .out = 64, .kernel = 1});
  unit("conv3", {.in = 64, .out = 192, .kernel = 3, .padding = 1});
  pool(3);
  int64_t in = 192;
  for (const GoogLeNetStep& step : kGoogLeNetSteps) {
    if (step.name == nullptr) {
      pool(step.pool);
      continue;
    }
    net.add<Inception>(step.name, in, step.widths);
    in = step.widths.sum();
  }
  net.apply(global_average_pool);
  net.dropout("dropout", *o.dropout);
  net.add<Linear>("fc", {.in = in, .out = o.classes});
}

}  // namespace

Networks zoo::googlenet() {
  // The auxiliary classifiers are used only in training.
  const NameTable torchvision{.program = "torchvision", .unused = {"aux1", "aux2"}};
  return {{"googlenet",
           {.dropout = 0.2},
           make_googlenet,
           {torchvision},
           {{224, 8}},
           {224, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}}};
}

}  // namespace tessera
