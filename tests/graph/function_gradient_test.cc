// Compiled functions that surrounding eager code differentiates.
#include "tessera/graph/function_gradient.h"

#include "tessera/engine/eager.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/arena.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/plan_report.h"
#include "tessera/graph/program.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/linear.h"
#include "tessera/layers/ops/loss.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/reduce_max.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

// LeNet-5 in two halves, one of which can be compiled.
struct Halves {
  Store store{3};
  Tensor c1 = store.parameter("c1", {6, 5, 5, 1}, Initializer::he_normal(25));
  Tensor b1 = store.parameter("b1", {6}, Initializer::zeros());
  Tensor c2 = store.parameter("c2", {16, 5, 5, 6}, Initializer::he_normal(150));
  Tensor b2 = store.parameter("b2", {16}, Initializer::zeros());
  Tensor f1 = store.parameter("f1", {84, 256}, Initializer::he_normal(256));
  Tensor f2 = store.parameter("f2", {10, 84}, Initializer::he_normal(84));
  Sgd sgd{store, store.parameters(), {.momentum = 0.9}};

  Tensor convolutions(const Tensor& x) {
    const Tensor first = max_pool2d(relu(bias(conv2d(x, c1), b1)), {.kernel = 2});
    return flatten(max_pool2d(relu(bias(conv2d(first, c2), b2)), {.kernel = 2}));
  }
  // Returns the losses and then the weights of 50 steps.
  std::vector<float> train(const std::function<Tensor(const Tensor&)>& part) {
    std::vector<float> seen;
    for (uint64_t i = 0; i < 50; ++i) {
      const int64_t n = i % 5 == 4 ? 3 : 8;
      const Tensor x = random_normal({n, 28, 28, 1}, i);
      std::vector<int32_t> kinds;
      for (int64_t k = 0; k < n; ++k) kinds.push_back(static_cast<int32_t>((i + k) % 10));
      const Tensor logits = linear(relu(linear(part(x), f1)), f2);
      const Tensor loss = cross_entropy(logits, from_vector<int32_t>({n}, kinds));
      sgd.step(gradients(loss, store.parameters()), scalar(0.05, DType::f64));
      seen.push_back(loss.item<float>());
    }
    for (const Tensor& w : store.parameters())
      for (float v : w.to_vector<float>()) seen.push_back(v);
    return seen;
  }
};

TEST(FunctionGradient, LeNetWithACompiledPartTrainsInTheBitsOfEagerCode) {
  Halves eager, parts;
  auto part = compile([&](const Tensor& x) { return parts.convolutions(x); });
  const std::vector<float> expected =
      eager.train([&](const Tensor& x) { return eager.convolutions(x); });
  EXPECT_EQ(parts.train([&](const Tensor& x) { return part(x); }), expected);
  EXPECT_EQ(part.trace_count(), 2);
  EXPECT_NE(expected[48], expected[0]);
}

TEST(FunctionGradient, WhatItReadsIsPlannedAndReported) {
  Halves halves;
  auto part = compile([&](const Tensor& x) { return halves.convolutions(x); });
  const Tensor x = random_normal({8, 28, 28, 1}, 1);
  part(x);
  const PlanReport report = plan_report(*part.step(0).compiled_graph());
  EXPECT_GT(report.classes.at("saved"), 8 * 24 * 24 * 6 * 4);
  EXPECT_EQ(static_cast<size_t>(report.slots), part.step(0).compiled_graph()->slot_bytes());
  EXPECT_GT(part.step(0).slot_bytes(), part.step(0).compiled_graph()->slot_bytes());
  const NoGradScope no_grad;
  part(x);
  ASSERT_EQ(part.trace_count(), 2);
  EXPECT_EQ(part.trace_reasons()[1], "in a NoGradScope");
  EXPECT_EQ(part.step(1).gradient_program(), nullptr);
  EXPECT_EQ(plan_report(*part.step(1).compiled_graph()).classes.count("saved"), 0u);
}

TEST(FunctionGradient, WhatItReadsIsCountedAsTheSlotsOfTheDeviceAreRounded) {
  const Device gpu{DeviceKind::gpu, 5};
  const DescribedDevice described(gpu);
  const DeviceScope on(gpu);
  CapturedFunction function = capture_function(
      [](const Tensors& t) { return Tensors{sum(exp(t[0]))}; }, {{DType::f32, {10}, gpu}}, {true});
  ASSERT_TRUE(function.gradient.has_value());
  CompileOptions options;
  options.arenas = std::make_shared<Arenas>();
  const CompiledGraph compiled(std::move(function.graph), options);
  const PlanReport report = plan_report(compiled);
  // The argument, the result and the count of skipped updates are slots; exp is saved.
  EXPECT_EQ(report.classes.at("saved"), 256);
  EXPECT_EQ(report.classes.at("slots"), 3 * 256);
}

// x -> x * exp(w * x): reads its argument, a parameter and two intermediates.
struct Shared {
  Store store{1, DType::f64};
  Tensor w = store.parameter("w", {3}, Initializer::normal(1));
  Tensor part(const Tensor& x) { return x * exp(w * x); }
  // Returns d f(part) / d leaves and then d f(part) / d w.
  std::vector<std::vector<double>> slopes(const std::function<Tensor(const StepFunction&)>& f,
                                          const Tensors& leaves, bool compiled) {
    const StepFunction eager = [&](const Tensors& t) { return Tensors{part(t[0])}; };
    auto program = compile([&](const Tensor& x) { return part(x); });
    const StepFunction call = [&](const Tensors& t) { return Tensors{program(t[0])}; };
    Tensors wrt = leaves;
    wrt.push_back(w);
    std::vector<std::vector<double>> found;
    for (const Tensor& slope : gradients(f(compiled ? call : eager), wrt))
      found.push_back(slope.to_vector<double>());
    return found;
  }
};

void expect_same_slopes(const std::function<Tensor(const StepFunction&)>& f,
                        const Tensors& leaves) {
  Shared shared;
  const auto eager = shared.slopes(f, leaves, false), compiled = shared.slopes(f, leaves, true);
  ASSERT_EQ(eager.size(), compiled.size());
  for (size_t k = 0; k < eager.size(); ++k)
    for (size_t i = 0; i < eager[k].size(); ++i)
      EXPECT_NEAR(compiled[k][i], eager[k][i], 1e-12 * std::abs(eager[k][i])) << k << " " << i;
}

TEST(FunctionGradient, AFunctionOfItsOwnResultHasTheGradientsOfEagerCode) {
  const Tensor x = requires_grad(normal({3}, 1));
  expect_same_slopes(
      [&](const StepFunction& part) {
        Tensor y = x;
        for (int i = 0; i < 4; ++i) y = part({y})[0] * 0.5;
        return sum(y);
      },
      {x});
}

TEST(FunctionGradient, TwinsOfOneFunctionHaveTheGradientsOfEagerCode) {
  const Tensor a = requires_grad(normal({3}, 1)), b = requires_grad(normal({3}, 2));
  const auto siamese = [&](const StepFunction& part) {
    const Tensor apart = part({a})[0] - part({b})[0];
    return sum(apart * apart) + sum(part({a})[0]);
  };
  expect_same_slopes(siamese, {a, b});
}

TEST(FunctionGradient, GradientsOfSeveralCallsComeInAnyOrder) {
  const Tensor x = requires_grad(normal({3}, 1));
  auto cube = compile([](const Tensor& t) { return sum(t * t * t); });
  Tensors calls;
  std::vector<Tensor> at;
  for (uint64_t i = 0; i < 4; ++i) {
    at.push_back(requires_grad(normal({3}, i)));
    calls.push_back(cube(at.back()));
  }
  const Tensor& shown = cube.step(0).output(0);
  const double last = shown.item<double>();
  for (const size_t i : {1, 3, 0, 2}) {
    expect_near(gradients(calls[i], Tensors{at[i]})[0], (at[i] * at[i] * 3.0).to_vector<double>());
    EXPECT_EQ(shown.item<double>(), last);
  }
}

// The values that a call saved are freed with the last handle that can give its gradient.
TEST(FunctionGradient, SavedValuesLiveNoLongerThanTheTape) {
  const auto live = [] { return eager_allocator({}).statistics().live_bytes; };
  auto cube = compile([](const Tensor& t) { return sum(t * t * t); });
  const Tensor x = requires_grad(normal({1000}, 1));
  cube(x);
  const size_t before = live();
  {
    const Tensor first = cube(x), second = cube(x), third = cube(x);
    EXPECT_GT(live(), before + 2 * 8000);
    gradients(first, Tensors{x});
    gradients(second, Tensors{x});
    EXPECT_LT(live(), before + 8000);
  }
  EXPECT_EQ(live(), before);
}

TEST(FunctionGradient, AnArgumentThatIsWrittenInItsSlotIsAnErrorNotAWrongNumber) {
  Store store(1, DType::f64);
  const Tensor w = store.parameter("w", {3}, Initializer::ones());
  auto f = compile([&](const Tensor& t) { return sum(t * w); });
  CompiledStep& step = f.prepare({{DType::f64, {3}, {}}});
  step.run();
  const Tensor first = step.output(0);
  Tensor(step.input(0)).assign<double>(std::vector<double>{1, 2, 3});
  step.run();
  const std::string says = error_of([&] { gradients(first, Tensors{w}); });
  EXPECT_NE(says.find("an argument or a saved value has been overwritten"), std::string::npos)
      << says;
  expect_near(gradients(step.output(0), Tensors{w})[0], std::vector<double>{1, 2, 3});
}

TEST(FunctionGradient, AParameterThatHasChangedSinceIsAnErrorNotAWrongNumber) {
  Store store(1, DType::f64);
  const Tensor w = store.parameter("w", {3}, Initializer::ones());
  const Tensor x = requires_grad(normal({3}, 1));
  auto f = compile([&](const Tensor& t) { return sum(t * t * w); });
  const Tensor y = f(x);
  Tensor(w).assign<double>(std::vector<double>{1, 2, 3});
  const std::string says = error_of([&] { gradients(y, Tensors{x, w}); });
  EXPECT_NE(says.find("w has been overwritten"), std::string::npos) << says;
}

TEST(FunctionGradient, OfItsGradientIsAnErrorFromEagerCode) {
  const Tensor x = requires_grad(normal({3}, 1));
  auto cube = compile([](const Tensor& t) { return sum(t * t * t); });
  const Tensor y = cube(x);
  const std::string says = error_of([&] { gradients(y, Tensors{x}, {}, CreateGraph::yes); });
  EXPECT_NE(says.find("eager mode"), std::string::npos) << says;
}

TEST(FunctionGradient, AStepThatTookItsGradientsSaysThatTheTapeIsGone) {
  Store store(1, DType::f64);
  const Tensor w = store.parameter("w", {3}, Initializer::ones());
  auto step = compile([&](const Tensor& x) {
    const Tensor loss = sum(x * w * w);
    gradients(loss, Tensors{w});
    return loss;
  });
  const Tensor loss = step(normal({3}, 1));
  EXPECT_EQ(step.step(0).gradient_program(), nullptr);
  const std::string says = error_of([&] { gradients(loss, Tensors{w}); });
  EXPECT_NE(says.find("was freed"), std::string::npos) << says;
}

TEST(FunctionGradient, OfSomeResultsIsRightWhenOthersAreNotUsed) {
  const Tensor x = requires_grad(normal({3}, 1));
  auto f = compile([](const Tensors& t) {
    return Tensors{exp(t[0]), t[0] * t[0], argmax(t[0], 0)};
  });
  expect_near(gradients(sum(f(Tensors{x})[1]), Tensors{x})[0], (x * 2.0).to_vector<double>());
  const Tensors both = f(Tensors{x});
  expect_near(gradients(sum(both[0] * both[1]), Tensors{x})[0],
              (exp(x) * (x * x + x * 2.0)).to_vector<double>());
}

}  // namespace
}  // namespace tessera
