#include "tessera/layers/module.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/tape.h"
#include "tessera/layers/modules.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/linear.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// Outer has a layer and a part, Inner, which has a layer and records the path of its call.
class Inner final : public Module {
 public:
  Inner(Store& store, std::string name)
      : Module(std::move(name)), fc(store, part("fc"), {.in = 4, .out = 4}) {}
  Linear fc;
  mutable std::string place;

 protected:
  Tensor forward(const Tensor& x) const override {
    const Tensor y = fc(x);
    place = current_module_path();
    return y;
  }
};

class Outer final : public Module {
 public:
  explicit Outer(Store& store) : Module(""), inner(store, "block.0"), last(store, "last", {4, 2}) {}
  Inner inner;
  Linear last;

 protected:
  Tensor forward(const Tensor& x) const override { return last(relu(inner(x))); }
};

std::vector<std::string> names_of(const Tensors& tensors) {
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors) names.push_back(tensor.impl()->storage->name);
  return names;
}

TEST(Module, PartsHaveFullNamesAndAreCalledUnderThem) {
  Store store;
  const Outer net(store);
  EXPECT_EQ(names_of(store.parameters()),
            (std::vector<std::string>{"block.0.fc.weight", "block.0.fc.bias", "last.weight",
                                      "last.bias"}));
  const Tensor x = ones({3, 4});
  ModulePathScope outside("elsewhere");
  EXPECT_EQ(net(x).shape(), Shape({3, 2}));
  EXPECT_EQ(net.inner.place, "block.0");
  EXPECT_EQ(current_module_path(), "elsewhere");
}

TEST(Module, OpsAreRecordedUnderTheNameOfTheirModule) {
  Store store;
  const Outer net(store);
  const Tensor y = net(ones({3, 4}));
  EXPECT_EQ(y.impl()->node->module_path, "last");
}

TEST(Module, SequentialCallsOneAfterTheOther) {
  Store store(3);
  Sequential net;
  Linear& first = net.add<Linear>(store, "0", Linear::Settings{.in = 4, .out = 5});
  Linear& second = net.add<Linear>(store, "1", Linear::Settings{.in = 5, .out = 2});
  const Tensor x = random_normal({3, 4}, 1);
  EXPECT_EQ(net.modules().size(), 2u);
  EXPECT_EQ(net(x).to_vector<float>(), second(first(x)).to_vector<float>());
}

TEST(Modules, LinearIsTheOpWithItsParameters) {
  Store store(1, DType::f64);
  const Linear with(store, "a", {.in = 100, .out = 50});
  const Linear without(store, "b", {.in = 100, .out = 50, .bias = false});
  const Tensor x = random_normal({2, 100}, 1, 0, 1, DType::f64);
  const Tensor w = store.find("a.weight"), b = store.find("a.bias");
  EXPECT_EQ(with(x).to_vector<double>(), linear(x, w, b).to_vector<double>());
  EXPECT_EQ(without(x).to_vector<double>(), linear(x, store.find("b.weight")).to_vector<double>());
  double largest = 0;
  for (double value : w.to_vector<double>()) largest = std::max(largest, std::abs(value));
  EXPECT_LE(largest, 0.1);
  EXPECT_GT(largest, 0.099);
}

TEST(Modules, Conv2dIsTheOpWithItsParameters) {
  Store store(1);
  const Conv2d conv(store, "c",
                    {.in = 6, .out = 64, .kernel = {3, 5}, .stride = 2, .padding = 1, .groups = 2});
  const Tensor w = store.find("c.weight"), b = store.find("c.bias");
  EXPECT_EQ(w.shape(), Shape({64, 3, 5, 3}));
  const Tensor x = random_normal({2, 9, 9, 6}, 1);
  EXPECT_EQ(conv(x).to_vector<float>(),
            bias(conv2d(x, w, {.stride = 2, .padding = 1, .groups = 2}), b).to_vector<float>());
  double sum = 0;
  for (float value : w.to_vector<float>()) sum += double{value} * value;
  EXPECT_NEAR(sum / static_cast<double>(w.elements()), 2.0 / 45, 0.1 * 2.0 / 45);  // 2 / fan_in
}

TEST(Modules, BatchNormKeepsRunningStatistics) {
  Store store;
  const BatchNorm2d norm(store, "bn", {.channels = 3, .momentum = 0.5});
  EXPECT_EQ(names_of(store.parameters()), (std::vector<std::string>{"bn.gamma", "bn.beta"}));
  EXPECT_EQ(names_of(store.buffers()),
            (std::vector<std::string>{"bn.running_mean", "bn.running_var"}));
  const Tensor x = full({2, 4, 4, 3}, 8);
  EXPECT_NEAR(norm(x).to_vector<float>()[0], 8, 1e-3);  // evaluation: mean 0, variance 1
  EXPECT_EQ(store.find("bn.running_mean").to_vector<float>()[0], 0);
  TrainingScope training;
  EXPECT_NEAR(norm(x).to_vector<float>()[0], 0, 1e-3);
  EXPECT_EQ(store.find("bn.running_mean").to_vector<float>()[0], 4);
  EXPECT_EQ(store.find("bn.running_var").to_vector<float>()[0], 0.5);
}

TEST(Modules, LayerAndGroupNormAreTheOpsWithTheirParameters) {
  Store store;
  const LayerNorm layer(store, "ln", {.features = 6, .eps = 0.5});
  const GroupNorm group(store, "gn", {.channels = 6, .groups = 3});
  const Tensor x = random_normal({2, 3, 4, 6}, 1);
  const Tensor ln_gamma = store.find("ln.gamma"), ln_beta = store.find("ln.beta");
  EXPECT_EQ(layer(x).to_vector<float>(),
            layer_norm(x, ln_gamma, ln_beta, {.eps = 0.5}).to_vector<float>());
  EXPECT_EQ(group(x).to_vector<float>(),
            group_norm(x, store.find("gn.gamma"), store.find("gn.beta"), {.groups = 3})
                .to_vector<float>());
}

TEST(Modules, DropoutWorksInTrainingOnlyAndByItsPlace) {
  const Dropout first("a", 0.5), second("b", 0.5);
  const Tensor x = ones({4, 50});
  EXPECT_EQ(first(x).to_vector<float>(), x.to_vector<float>());
  TrainingScope training;
  const auto draw = [&](const Dropout& dropout) {
    RandomScope random(1, zeros({2}, DType::i64));
    return dropout(x).to_vector<float>();
  };
  EXPECT_EQ(draw(first), draw(first));
  EXPECT_NE(draw(first), draw(second));
}

template <class F>
std::string message_of(F call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Modules, SizesThatCannotBeMeantAreExplained) {
  Store store;
  EXPECT_EQ(message_of([&] { Linear(store, "fc", {.out = 3}); }), "fc: in must be >= 1, but is 0");
  EXPECT_EQ(message_of([&] { Conv2d(store, "conv", {.in = 3, .out = 4, .groups = 2}); }),
            "conv: groups = 2 must divide in = 3 and out = 4");
  EXPECT_EQ(message_of([&] { BatchNorm2d(store, "bn", {}); }),
            "bn: channels must be >= 1, but is 0");
  EXPECT_EQ(message_of([&] { LayerNorm(store, "ln", {}); }), "ln: features must be >= 1, but is 0");
  EXPECT_EQ(message_of([&] { GroupNorm(store, "gn", {.channels = 8, .groups = 3}); }),
            "gn: groups = 3 must divide channels = 8");
  const Linear taken(store, "fc", {.in = 1, .out = 1});
  EXPECT_NE(message_of([&] { Linear(store, "fc", {.in = 1, .out = 1}); }).find("fc.weight"),
            std::string::npos);
}

TEST(Module, ShapeErrorsNameThePlaceInTheModel) {
  Store store;
  const Outer net(store);
  const auto message = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const ShapeError& error) {
      return error.what();
    }
    return "no ShapeError";
  };
  const std::string text = message([&] { net(ones({3, 5})); });
  EXPECT_EQ(text.find("linear at block.0.fc: x has 5 features"), 0u) << text;
  // The function throws before it calls an op; its path is added once, however deep.
  class Picky final : public Module {
   public:
    Picky() : Module("head") {}

   protected:
    Tensor forward(const Tensor& x) const override {
      throw ShapeError("picky: not " + x.spec().text());
    }
  };
  Sequential all("all");
  all.add<Picky>();
  EXPECT_EQ(message([&] { all(ones({2})); }), "picky at head: not float32[2]");
}

}  // namespace
}  // namespace tessera
