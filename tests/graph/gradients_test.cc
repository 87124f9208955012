// Every op, differentiable or not, in each way a program can be run: a gradient is right or an
// error that names the op. It is never silently zero.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/recorder.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/plan_report.h"
#include "tessera/graph/program.h"
#include "tessera/layers/activation.h"
#include "tessera/layers/batch_norm.h"
#include "tessera/layers/bias.h"
#include "tessera/layers/concat.h"
#include "tessera/layers/conv2d.h"
#include "tessera/layers/cross_entropy.h"
#include "tessera/layers/dropout.h"
#include "tessera/layers/group_norm.h"
#include "tessera/layers/layer_norm.h"
#include "tessera/layers/linear.h"
#include "tessera/layers/loss.h"
#include "tessera/layers/matmul.h"
#include "tessera/layers/metrics.h"
#include "tessera/layers/pool2d.h"
#include "tessera/layers/reduce_max.h"
#include "tessera/layers/scale_channels.h"
#include "tessera/layers/sgd.h"
#include "tessera/layers/shortcut.h"
#include "tessera/layers/slice.h"
#include "tessera/layers/softmax.h"
#include "tessera/tests/engine/op_testing.h"

namespace tessera {
namespace {

using Function = std::function<Tensor(const Tensors&)>;

// What gradients() of the gradient is.
enum class Second { right, error };

struct Case {
  const char* name;
  Function f;
  Tensors inputs;
  Second second = Second::right;
};

Tensor positive(const Shape& shape, uint64_t key) {
  return random_uniform(shape, key, 0.5, 2, DType::f64);
}

Tensor labels() { return from_vector<int32_t>({3}, {2, 0, 3}); }

// The values of a position that dropout draws at.
Tensor position() { return from_vector<int64_t>({2}, {3, 0}); }

std::vector<Case> cases() {
  const Tensor x = normal({3, 4}, 1), y = positive({3, 4}, 2), row = normal({4}, 3);
  const Tensor image = normal({2, 5, 5, 4}, 4), filters = normal({6, 3, 3, 4}, 5);
  const Tensor gamma = positive({4}, 6), beta = normal({4}, 7);
  const Tensor far = spread({2, 6, 6, 2});
  const auto own = [](auto f) { return [f](const Tensors& t) { return f(t[0]); }; };
  const auto norm = [](bool training) {
    return [training](const Tensors& t) {
      const TrainingScope scope(training);
      // Buffers of a store, because a captured step updates them.
      static Store store(1, DType::f64);
      static const Tensor mean = store.buffer("mean", {4}, Initializer::zeros());
      static const Tensor variance = store.buffer("variance", {4}, Initializer::ones());
      return batch_norm(t[0], t[1], t[2], mean, variance, {.momentum = 0});
    };
  };
  const auto scalar_case = [](ScalarOp op, int inputs) {
    return [op, inputs](const Tensors& t) {
      ScalarBuilder b(inputs);
      return pointwise(name_of(op), b.build(b.push(op, 0, std::min(1, inputs - 1), inputs - 1)), t);
    };
  };
  std::vector<Case> all = {
      {"add", [](const Tensors& t) { return t[0] + t[1]; }, {x, row}},
      {"sub", [](const Tensors& t) { return t[0] - t[1]; }, {x, row}},
      {"mul", [](const Tensors& t) { return t[0] * t[1]; }, {x, row}},
      {"div", [](const Tensors& t) { return t[0] / t[1]; }, {x, y}},
      {"scalars",
       [](const Tensors& t) { return (2.0 - (t[0] * 3.0 + 1.0) / 2.0) * (1.0 / t[0]); },
       {y}},
      {"same input twice", [](const Tensors& t) { return t[0] * t[0] * t[0]; }, {x}},
      {"exp", own(exp), {x}},
      {"log", own(log), {y}},
      {"sqrt", own(sqrt), {y}},
      {"abs", own(abs), {x}},
      {"maximum", [](const Tensors& t) { return maximum(t[0], t[1]) * t[0]; }, {x, y}},
      {"reshape",
       [](const Tensors& t) {
         return exp(reshape(t[0], {2, 6}));
       },
       {x}},
      {"rows", [](const Tensors& t) { return exp(rows(t[0], 1, 3)); }, {x}},
      {"expand",
       [](const Tensors& t) {
         return exp(expand(t[0], {2, 3, 4}));
       },
       {x}},
      {"sum_to",
       [](const Tensors& t) {
         return exp(sum_to(t[0], {3, 1}));
       },
       {x}},
      {"copy", [](const Tensors& t) { return exp(copy(t[0])); }, {x}},
      {"sum", [](const Tensors& t) { return exp(sum(t[0], {0}, false)); }, {x}},
      {"mean", [](const Tensors& t) { return exp(mean(t[0])); }, {x}},
      {"relu", [](const Tensors& t) { return relu(t[0]) * t[0]; }, {x}},
      {"relu6", [](const Tensors& t) { return relu6(t[0]) * t[0]; }, {x}},
      {"gelu", own(gelu), {x}},
      {"gelu_tanh", own(gelu_tanh), {x}},
      {"silu", own(silu), {x}},
      {"sigmoid", own(sigmoid), {x}},
      {"tanh", own(tessera::tanh), {x}},
      {"bias", [](const Tensors& t) { return exp(bias(t[0], t[1])); }, {image, beta}},
      {"concat",
       [](const Tensors& t) {
         return exp(concat({t[0], t[1]}));
       },
       {x, y}},
      {"conv2d",
       [](const Tensors& t) { return conv2d(t[0], t[1], {.stride = 2, .padding = 1}); },
       {image, filters}},
      {"conv2d_input_grad",
       [](const Tensors& t) {
         return conv2d_input_grad(t[0], t[1], {5, 5}, {});
       },
       {normal({2, 3, 3, 6}, 8), filters}},
      {"conv2d_weight_grad",
       [](const Tensors& t) {
         return conv2d_weight_grad(t[0], t[1], {3, 3}, {});
       },
       {image, normal({2, 3, 3, 6}, 9)}},
      {"cross_entropy", [](const Tensors& t) { return cross_entropy(t[0], labels(), {0.1}); }, {x}},
      {"cross_entropy of targets",
       [](const Tensors& t) { return cross_entropy(t[0], t[1], {0.2}); },
       {x, y}},
      {"dropout",
       [](const Tensors& t) {
         static const Tensor at = position();
         const TrainingScope training;
         const RandomScope random(5, at);
         return exp(dropout(t[0], 0.3));
       },
       {x}},
      {"linear",
       [](const Tensors& t) { return linear(t[0], t[1], t[2]); },
       {x, normal({5, 4}, 10), normal({5}, 11)}},
      {"mse", [](const Tensors& t) { return mse(t[0], t[1]); }, {x, y}},
      {"bce", [](const Tensors& t) { return bce_with_logits(t[0], t[1]); }, {x, y}},
      {"matmul",
       [](const Tensors& t) {
         return matmul(t[0], t[1], {true, false});
       },
       {x, normal({3, 5}, 12)}},
      {"average_pool2d",
       [](const Tensors& t) { return exp(average_pool2d(t[0], {.kernel = 2})); },
       {image}},
      {"global_average_pool",
       [](const Tensors& t) { return exp(global_average_pool(t[0])); },
       {image}},
      {"scale_channels",
       [](const Tensors& t) { return scale_channels(t[0], t[1]); },
       {image, normal({2, 4}, 13)}},
      {"slice", [](const Tensors& t) { return exp(slice(t[0], 1, 0, 4, 2)); }, {x}},
      {"pad", [](const Tensors& t) { return exp(pad(t[0], 0, 1, 2)); }, {x}},
      {"softmax", own(softmax), {x}},
      {"log_softmax", own(log_softmax), {x}},
      {"batch_norm in evaluation", norm(false), {image, gamma, beta}},
      {"shortcut",
       [](const Tensors& t) { return exp(shortcut(t[0], {.stride = 2, .channels = 6})); },
       {image}},
      // The gradients of these have none of their own.
      {"batch_norm in training", norm(true), {image, gamma, beta}, Second::error},
      {"layer_norm",
       [](const Tensors& t) { return layer_norm(t[0], t[1], t[2], {}); },
       {x, row, row + 1.0},
       Second::error},
      {"group_norm",
       [](const Tensors& t) { return group_norm(t[0], t[1], t[2], {.groups = 2}); },
       {image, gamma, beta},
       Second::error},
      {"max_pool2d",
       [](const Tensors& t) { return exp(max_pool2d(t[0], {.kernel = 2})); },
       {far},
       Second::error},
      {"max", [](const Tensors& t) { return exp(max(t[0], 1)); }, {spread({3, 5})}, Second::error},
  };
  for (ScalarOp op :
       {ScalarOp::add, ScalarOp::sub, ScalarOp::mul, ScalarOp::div, ScalarOp::max, ScalarOp::min})
    all.push_back({name_of(op), scalar_case(op, 2), {y, positive({4}, 14)}});
  for (ScalarOp op : {ScalarOp::neg, ScalarOp::abs, ScalarOp::exp, ScalarOp::log, ScalarOp::sqrt,
                      ScalarOp::tanh, ScalarOp::erf, ScalarOp::sigmoid})
    all.push_back({name_of(op), scalar_case(op, 1), {y}});
  all.push_back({"select", scalar_case(ScalarOp::select, 3), {y, x, x + 1.0}});
  return all;
}

Tensors leaves_of(const Tensors& inputs) {
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(requires_grad(detach(copy(input))));
  return leaves;
}

// The gradients of sum(u f(inputs)), where f is called from eager code.
std::vector<std::vector<double>> slopes_of(const Function& f, const Tensors& inputs) {
  const Tensors leaves = leaves_of(inputs);
  const Tensor y = f(leaves);
  std::vector<std::vector<double>> values;
  for (const Tensor& slope : gradients(y, leaves, normal(y.shape(), 99)))
    values.push_back(slope.to_vector<double>());
  return values;
}

TEST(Gradients, OfEveryOpAreRightInEagerCode) {
  for (const Case& c : cases()) {
    const auto result = check_gradients(c.f, c.inputs);
    EXPECT_TRUE(result.passed) << c.name << ": " << result.report;
  }
}

TEST(Gradients, OfACompiledPartHaveTheBitsOfEagerCode) {
  for (const Case& c : cases()) {
    CompileOptions guarded;
    guarded.verify_plan = true;
    auto compiled = compile([&](const Tensors& t) { return Tensors{c.f(t)}; }, guarded);
    const auto part = [&](const Tensors& t) { return compiled(t)[0]; };
    EXPECT_EQ(slopes_of(part, c.inputs), slopes_of(c.f, c.inputs)) << c.name;
    EXPECT_NE(compiled.step(0).gradient_program(), nullptr) << c.name;
  }
}

TEST(Gradients, OfACompiledPartInACompiledStepHaveTheBitsOfEagerCode) {
  for (const Case& c : cases()) {
    auto inner = compile([&](const Tensors& t) { return Tensors{c.f(t)}; });
    auto step = compile([&](const Tensors& inputs) {
      Tensors leaves;
      for (const Tensor& input : inputs) leaves.push_back(requires_grad(input));
      const Tensor y = inner(leaves)[0];
      return gradients(y, leaves, constant(normal(y.shape(), 99)));
    });
    std::vector<std::vector<double>> found;
    for (const Tensor& slope : step(c.inputs)) found.push_back(slope.to_vector<double>());
    EXPECT_EQ(found, slopes_of(c.f, c.inputs)) << c.name;
    EXPECT_EQ(inner.trace_count(), 0) << c.name;  // it became a part of the step
  }
}

TEST(Gradients, OfGradientsAreRightOrAnErrorThatNamesTheOp) {
  for (const Case& c : cases()) {
    const auto slope = [&](const Tensors& t) {
      const Tensor y = c.f(t);
      Tensor all = sum(t[0]);  // where the gradients are constant, it depends on the inputs too
      uint64_t key = 50;
      for (const Tensor& g : gradients(y, t, normal(y.shape(), 99), CreateGraph::yes))
        all = all + sum(g * normal(g.shape(), key++));
      return all;
    };
    try {
      const auto result = check_gradients(slope, c.inputs);
      EXPECT_TRUE(result.passed) << c.name << ": " << result.report;
      EXPECT_EQ(c.second, Second::right) << c.name;
    } catch (const Error& error) {
      EXPECT_EQ(c.second, Second::error) << c.name << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find("has no gradient"), std::string::npos)
          << c.name << ": " << error.what();
    }
  }
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// An op that says nothing of gradients.
struct NoParams {
  bool operator==(const NoParams&) const = default;
};
class Twice final : public OpBase<Twice> {
 public:
  std::string_view name() const override { return "twice"; }
  Specs infer(std::span<const TensorSpec> in) const override { return {in[0]}; }
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    for (int64_t i = 0; i < in[0].elements(); ++i)
      out[0].as<double>()[i] = 2 * in[0].as<double>()[i];
  }
  const NoParams params{};
};

// Functions through which no gradient flows, and what the error says.
struct Stop {
  Function f;
  const char* says;
};

std::vector<Stop> stops() {
  return {
      {[](const Tensors& t) { return apply1(std::make_shared<Twice>(), t); },
       "twice at head has no gradient; use detach()"},
      {[](const Tensors& t) { return cast(cast(t[0], DType::i32), DType::f64); },
       "cast at head has no gradient; use detach()"},
      {[](const Tensors& t) { return cast(argmax(t[0], 1), DType::f64); },
       "max at head makes integers, which have no gradient; use detach()"},
      {[](const Tensors& t) { return cast(top_k_correct(t[0], labels()), DType::f64); },
       "top_k_correct at head has no gradient; use detach()"},
  };
}

// Beside the stop the loss depends on x in a way that has a gradient: only that one would be seen.
Tensor loss_with(const Stop& stop, const Tensor& x) {
  const ModulePathScope head("head");
  return sum(x * 2.0) + sum(stop.f({x}));
}

TEST(Gradients, ThroughAnOpWithoutOneAreAnError) {
  for (const Stop& stop : stops()) {
    const Tensor x = requires_grad(normal({3, 4}, 1));
    const auto wanted = [&](const std::string& says) {
      EXPECT_NE(says.find(stop.says), std::string::npos) << says;
    };
    wanted(error_of([&] { gradients(loss_with(stop, x), Tensors{x}); }));
    wanted(error_of([&] {
      auto part = compile([&](const Tensor& t) { return loss_with(stop, t); });
      gradients(part(x), Tensors{x});
    }));
    wanted(error_of([&] {
      auto step = compile([&](const Tensor& t) {
        const Tensor leaf = requires_grad(t);
        auto part = compile([&](const Tensor& u) { return loss_with(stop, u); });
        return gradients(part(leaf), Tensors{leaf})[0];
      });
      step(x);
    }));
    // What comes of it is stopped too, and detach() is the way out.
    const Tensor y = stop.f({x});
    EXPECT_NE(error_of([&] { gradients(sum(x * 2.0) + sum(exp(y)), Tensors{x}); }), "no error");
    EXPECT_EQ(error_of([&] { gradients(sum(x * 2.0) + sum(exp(detach(y))), Tensors{x}); }),
              "no error");
  }
}

TEST(Gradients, OfGradientsTakenWithoutAGraphAreAnError) {
  const Tensor x = requires_grad(normal({3, 4}, 1));
  const Tensor slope = gradients(sum(x * x * x), Tensors{x})[0];
  const std::string says = error_of([&] { gradients(sum(x) + sum(slope * slope), Tensors{x}); });
  EXPECT_NE(says.find("without CreateGraph::yes"), std::string::npos) << says;
  EXPECT_EQ(error_of([&] { gradients(sum(x * detach(slope)), Tensors{x}); }), "no error");
}

TEST(Gradients, OfALossThatDependsOnNothingAreAnError) {
  const Tensor x = requires_grad(normal({3, 4}, 1));
  const auto in_no_grad = [&] {
    const NoGradScope no_grad;
    return sum(x * x);
  };
  const std::string says = error_of([&] { gradients(in_no_grad(), Tensors{x}); });
  EXPECT_NE(says.find("depends on no tracked tensor"), std::string::npos) << says;
}

TEST(Gradients, ThatAnOpForgetsAreAnError) {
  class Forgets final : public OpBase<Forgets> {
   public:
    std::string_view name() const override { return "forgets"; }
    Specs infer(std::span<const TensorSpec> in) const override { return {in[0]}; }
    void run(CpuContext&, Buffers, Buffers, Buffer) const override {}
    bool differentiable() const override { return true; }
    Tensors grad(const GradArgs&) const override { return {Tensor()}; }
    const NoParams params{};
  };
  const Tensor x = requires_grad(normal({3, 4}, 1));
  const std::string says =
      error_of([&] { gradients(sum(apply1(std::make_shared<Forgets>(), {x})), Tensors{x}); });
  EXPECT_NE(says.find("forgets: its grad() gives nothing for input 0"), std::string::npos) << says;
}

// A gradient penalty: the loss reads the slope of the network by its input.
TEST(Gradients, OfAGradientPenaltyAreRight) {
  const Tensors inputs{normal({3, 4}, 1), normal({5, 4}, 2), normal({1, 5}, 3)};
  const auto penalised = [](const Tensors& t) {
    const Tensor y = linear(tessera::tanh(linear(t[0], t[1])), t[2]);
    const Tensor slope = gradients(sum(y), Tensors{t[0]}, {}, CreateGraph::yes)[0];
    const Tensor length = sqrt(sum(slope * slope, {1}, false));
    return mean(y) + 10.0 * mean((length - 1.0) * (length - 1.0));
  };
  expect_gradients(penalised, inputs);
  auto step = compile([&](const Tensors& in) {
    Tensors leaves;
    for (const Tensor& input : in) leaves.push_back(requires_grad(input));
    return gradients(penalised(leaves), leaves);
  });
  const Tensors leaves = leaves_of(inputs);
  const Tensors eager = gradients(penalised(leaves), leaves), graph = step(inputs);
  for (size_t i = 0; i < eager.size(); ++i)
    EXPECT_EQ(graph[i].to_vector<double>(), eager[i].to_vector<double>());
}

// LeNet-5 in two halves, so that one of them can be compiled.
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
  // The loss and the weights of 50 steps.
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
  const PlanReport report = plan_report(*part.step(0).program());
  EXPECT_GT(report.classes.at("saved"), 8 * 24 * 24 * 6 * 4);
  EXPECT_EQ(static_cast<size_t>(report.slots), part.step(0).program()->slot_bytes());
  EXPECT_GT(part.step(0).slot_bytes(), part.step(0).program()->slot_bytes());
  const NoGradScope no_grad;
  part(x);
  ASSERT_EQ(part.trace_count(), 2);
  EXPECT_EQ(part.trace_reasons()[1], "in a NoGradScope");
  EXPECT_EQ(part.step(1).gradient_program(), nullptr);
  EXPECT_EQ(plan_report(*part.step(1).program()).classes.count("saved"), 0u);
}

TEST(FunctionGradient, AnEarlierCallIsAnErrorNotTheGradientOfALaterOne) {
  const Tensor a = requires_grad(normal({3}, 1)), b = requires_grad(normal({3}, 2));
  auto cube = compile([](const Tensor& x) { return sum(x * x * x); });
  const Tensor first = cube(a), second = cube(b);
  const std::string says = error_of([&] { gradients(first, Tensors{a}); });
  EXPECT_NE(says.find("called again"), std::string::npos) << says;
  expect_near(gradients(second, Tensors{b})[0], (b * b * 3.0).to_vector<double>());
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
  EXPECT_NE(says.find("let go"), std::string::npos) << says;
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

// The names of the ops in the sources: "name() const override { return "conv2d"; }".
std::set<std::string> op_names() {
  std::set<std::string> names;
  const std::regex pattern(
      R"re(std::string_view name\(\) const override \{\s*return "(\w+)"|kName = "(\w+)")re");
  for (const char* floor : {"engine", "layers"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             std::filesystem::path(TESSERA_SOURCE_DIR) / floor)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i)
        names.insert((*i)[1].matched ? (*i)[1] : (*i)[2]);
    }
  return names;
}

// Sees which ops run.
class Seen final : public Recorder {
 public:
  explicit Seen(std::set<std::string>& names) : names_(names) {}
  Tensors record(const OpPtr& op, std::span<const Tensor> inputs, const Specs&) override {
    names_.emplace(op->name());
    const RecorderScope now(nullptr);
    const NoGradScope no_tape;
    return apply(op, {inputs.begin(), inputs.end()});
  }
  Tensor record_constant(const Tensor& value) override { return value; }
  Tensor pin(const Tensor& tensor) override { return tensor; }
  uint64_t version(const Tensor&) override { return 0; }

 private:
  std::set<std::string>& names_;
};

TEST(Gradients, NoOpIsForgottenHere) {
  std::set<std::string> seen;
  {
    Seen recorder(seen);
    const RecorderScope scope(&recorder);
    for (const Case& c : cases()) {
      const Tensors leaves = leaves_of(c.inputs);
      const Tensor y = c.f(leaves);
      gradients(y, leaves, normal(y.shape(), 99));
    }
    for (const Stop& stop : stops()) stop.f({normal({3, 4}, 1)});
  }
  // Ops that update, of the optimizers and of the running statistics: nothing is computed from what
  // they give. Pictures are bytes.
  for (const char* name : {"sgd_update", "adamw_update", "count_up", "lr_if_finite",
                           "batch_norm_update", "image_normalize"})
    seen.insert(name);
  for (const std::string& name : op_names()) EXPECT_TRUE(seen.contains(name)) << name;
}

}  // namespace
}  // namespace tessera
