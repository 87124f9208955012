// Tests the pass `simplify`: the nodes that it changes or leaves, and that the bits stay the same.
#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/pointwise.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/lower.h"
#include "tessera/graph/passes/passes.h"
#include "tessera/graph/program.h"
#include "tessera/layers/ops/activation.h"

namespace tessera {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor telling() {
  return from_vector<float>(
      {2, 1, 6}, {0, -0.0f, 1.5f, -3, kInf, -kInf, kNan, -kNan, 1e-40f, -1e-40f, 3e38f, 0.1f});
}

std::string names(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes)
    text += (text.empty() ? "" : " ") + std::string(node.op->name());
  return text;
}

struct Outcome {
  std::string steps;  // nodes after simplify and dead_code
  int fired = 0;
};

// Returns the values with one NaN for all: which one a product returns depends on the order of
// factors that the C++ compiler chose.
std::vector<float> values_of(const Tensor& tensor) {
  std::vector<float> values = tensor.to_vector<float>();
  for (float& value : values)
    if (std::isnan(value)) value = kNan;
  return values;
}

// Runs both passes alone, and the function with the whole pipeline, without the pass and eagerly.
Outcome simplify_step(const StepFunction& step, const Tensors& arguments) {
  Specs specs;
  for (const Tensor& argument : arguments) specs.push_back(argument.spec());
  Graph graph = capture(step, specs);
  Outcome outcome;
  outcome.fired = simplify(graph);
  EXPECT_EQ(verify(graph), "");
  eliminate_dead_code(graph);
  EXPECT_EQ(verify(graph), "");
  outcome.steps = names(graph);
  Compiled with(step, {.verify_plan = true}), without(step, {.disabled_passes = {"simplify"}}),
      eager(step, {.eager = true});
  const Tensors results[] = {with.call(arguments), without.call(arguments), eager.call(arguments)};
  for (size_t i = 0; i < results[0].size(); ++i)
    for (const Tensors& other : {results[1], results[2]}) {
      EXPECT_EQ(results[0][i].spec(), other[i].spec());
      if (other[i].dtype() != DType::f32) continue;
      const std::vector<float> a = values_of(results[0][i]), b = values_of(other[i]);
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << outcome.steps;
    }
  return outcome;
}

// Simplifies f between two nodes that stay.
template <class F>
Outcome between(F&& f) {
  return simplify_step([&](const Tensors& x) { return Tensors{exp(f(abs(x[0])))}; }, {telling()});
}

TEST(Simplify, HandsOnWhatIsNotChanged) {
  const char* nothing = "abs exp";
  EXPECT_EQ(between([](const Tensor& x) { return x * 1.0; }).steps, nothing);
  EXPECT_EQ(between([](const Tensor& x) { return x / 1.0; }).steps, nothing);
  EXPECT_EQ(between([](const Tensor& x) { return x - 0.0; }).steps, nothing);
  EXPECT_EQ(between([](const Tensor& x) { return x + -0.0; }).steps, nothing);
  EXPECT_EQ(between([](const Tensor& x) { return x * 1.0 * 1.0 - 0.0; }).steps, nothing);
  EXPECT_EQ(between([](const Tensor& x) { return x * 1.0; }).fired, 1);
}

TEST(Simplify, LeavesWhatChangesASign) {
  const auto stays = [&](const char* steps, auto&& f) {
    const Outcome outcome =
        simplify_step([&](const Tensors& x) { return Tensors{1.0 / f(x[0])}; }, {telling()});
    EXPECT_EQ(outcome.steps, steps);
    EXPECT_EQ(outcome.fired, 0) << steps;
  };
  stays("add_scalar scalar_div", [](const Tensor& x) { return x + 0.0; });
  stays("sub_scalar scalar_div", [](const Tensor& x) { return x - -0.0; });
  stays("scalar_sub scalar_div", [](const Tensor& x) { return 0.0 - x; });
  stays("scale scalar_div", [](const Tensor& x) { return x * 0.0; });
  stays("sub scalar_div", [](const Tensor& x) { return x - x; });
  stays("div scalar_div", [](const Tensor& x) { return x / x; });
}

TEST(Simplify, JoinsPointwiseStepsThatAreNoMoreWorkTogether) {
  const auto negated = [](const Tensor& x) {
    ScalarBuilder b(1);
    return pointwise("neg", b.build(b.push(ScalarOp::neg, 0)), {x});
  };
  EXPECT_EQ(between([&](const Tensor& x) { return negated(negated(x)); }).steps, "abs exp");
  EXPECT_EQ(between([](const Tensor& x) { return relu(relu(x)); }).steps, "abs relu+relu exp");
  EXPECT_EQ(between([](const Tensor& x) { return clamp(clamp(x, -5, 2), -5, 2); }).fired, 0);
  // Two relu stay separate if the value between them has another user.
  const Outcome shared = between([](const Tensor& x) {
    const Tensor y = relu(x);
    return relu(y) * exp(y);
  });
  EXPECT_EQ(shared.fired, 0);
}

TEST(Simplify, DropsInputsThatAreNotRead) {
  const auto chosen = [](const Tensor& x, const Tensor& condition) {
    ScalarBuilder b(2);
    const int twice = b.add(0, 0);
    return pointwise("choose", b.build(b.push(ScalarOp::select, 1, twice, twice)), {x, condition});
  };
  const Outcome whole = between([&](const Tensor& x) { return chosen(x, log(x)); });
  EXPECT_EQ(whole.steps, "abs choose exp");
  // Only the condition has the shape of the result.
  const Outcome small =
      simplify_step([&](const Tensors& x) { return Tensors{chosen(x[0], exp(x[1]))}; },
                    {from_vector<float>({1}, {3}), telling()});
  EXPECT_EQ(small.steps, "exp+choose");
}

TEST(Simplify, ViewsOfViewsAreOne) {
  const auto ends = [](const Tensor& x) { return reshape(reshape(x, {3, 4}), {4, 3}); };
  EXPECT_EQ(between([&](const Tensor& x) { return reshape(ends(x), {12}); }).steps, "abs view exp");
  EXPECT_EQ(between([&](const Tensor& x) { return reshape(ends(x), {2, 1, 6}); }).steps, "abs exp");
  const auto part = [](const Tensor& x) { return rows(rows(reshape(x, {4, 3}), 1, 4), 1, 2); };
  EXPECT_EQ(between(part).steps, "abs view exp");
  // The inner view may be used too: views keep nothing.
  const Outcome both = between([](const Tensor& x) {
    const Tensor flat = reshape(x, {12});
    return reshape(flat, {2, 1, 6}) * exp(sum(flat));
  });
  EXPECT_EQ(both.fired, 2);  // merges the views, then drops the identity
}

TEST(Simplify, PermutationsInARowAreOne) {
  const auto turned = [](const Tensor& x) { return permute(x, {2, 0, 1}); };
  EXPECT_EQ(between([&](const Tensor& x) { return turned(turned(x)); }).steps, "abs permute exp");
  EXPECT_EQ(between([&](const Tensor& x) { return turned(turned(turned(x))); }).steps, "abs exp");
  EXPECT_EQ(between([](const Tensor& x) { return transpose(transpose(x)); }).steps, "abs exp");
  EXPECT_EQ(between([](const Tensor& x) { return permute(x, {1, 0, 2}); }).fired, 0);
  EXPECT_EQ(between([](const Tensor& x) {
              return transpose(reshape(transpose(reshape(x, {3, 4})), {3, 4}));
            }).fired,
            0);
}

TEST(Simplify, CastsInARowAreOneWhereNothingIsLost) {
  const auto through = [](DType first, DType second) {
    return [=](const Tensor& x) { return cast(cast(x, first), second); };
  };
  EXPECT_EQ(between(through(DType::f64, DType::f32)).steps, "abs exp");
  const Tensor bytes = cast(from_vector<float>({4}, {0, 1, 200, 255}), DType::u8);
  const auto steps = [&](const Tensor& x, DType first, DType second) {
    return simplify_step(
               [=](const Tensors& in) {
                 return Tensors{cast(through(first, second)(in[0]), DType::f32)};
               },
               {x})
        .steps;
  };
  EXPECT_EQ(steps(bytes, DType::i32, DType::f64), "cast");
  EXPECT_EQ(steps(bytes, DType::i64, DType::u8), "cast");
  const Tensor whole = cast(from_vector<float>({3}, {-7, 3e8f, 255}), DType::i32);
  EXPECT_EQ(steps(whole, DType::f64, DType::f64), "cast");  // float64 holds every int32
  EXPECT_EQ(steps(whole, DType::f32, DType::f64), "cast cast");
  EXPECT_EQ(steps(whole, DType::u8, DType::i64), "cast cast");  // int64 holds every uint8
  const Tensor broken = from_vector<float>({3}, {-7.5f, 3e8f, 0.25f});
  EXPECT_EQ(steps(broken, DType::f64, DType::i32), "cast cast cast");
  EXPECT_EQ(steps(broken, DType::i32, DType::f64), "cast cast");
}

TEST(Simplify, DoesNotReadAnOverwrittenVersion) {
  Store store{5};
  const Tensor a = store.parameter("a", {6}, Initializer::ones());
  const auto step = [&](bool before) {
    return [&, before](const Tensors& x) {
      const NoGradScope no_grad;
      const Tensor old = a * 1.0;
      const Tensor early = before ? exp(old) : old;
      ScalarBuilder b(2);
      pointwise_update("descend", b.build(b.sub(0, 1)), {a, x[0]});
      return Tensors{early * x[0]};
    };
  };
  Graph late = capture(step(false), {TensorSpec{DType::f32, {6}, {}}});
  simplify(late);
  EXPECT_EQ(verify(late), "");
  EXPECT_EQ(names(late), "scale descend mul");
  EXPECT_EQ(late.nodes[2].inputs[0], late.nodes[0].outputs[0]);
  Graph early = capture(step(true), {TensorSpec{DType::f32, {6}, {}}});
  EXPECT_EQ(simplify(early), 1);
  eliminate_dead_code(early);
  EXPECT_EQ(verify(early), "");
  EXPECT_EQ(names(early), "exp descend mul");
}

TEST(Simplify, ResultsKeepStepsOfTheirOwn) {
  const Outcome result = simplify_step(
      [](const Tensors& x) {
        return Tensors{exp(x[0]) * 1.0, x[0] * 1.0};
      },
      {telling()});
  EXPECT_EQ(result.steps, "exp+scale scale");
}

TEST(Simplify, AJoinedProgramComputesNothingTwice) {
  const StepFunction step = [](const Tensors& x) { return Tensors{sigmoid(x[0]) * silu(x[0])}; };
  Graph graph = capture(step, {telling().spec()});
  lower(graph, {});
  ASSERT_EQ(graph.nodes.size(), 1u);
  EXPECT_EQ(graph.nodes[0].op->pointwise()->operations(), 3);
  simplify_step(step, {telling()});
}

TEST(Simplify, CountsAndCanBeSwitchedOff) {
  const StepFunction step = [](const Tensors& x) {
    return Tensors{exp(transpose(transpose(x[0])))};
  };
  for (const bool on : {true, false}) {
    Graph graph = capture(step, {telling().spec()});
    CompileOptions options;
    if (!on) options.disabled_passes = {"simplify"};
    const std::vector<PassRecord> passes = lower(graph, options);
    EXPECT_EQ(passes[0].name, "simplify");
    EXPECT_EQ(passes[0].fired, on ? 2 : 0);  // merges the two, then drops the identity
    EXPECT_EQ(names(graph), on ? "exp" : "permute permute exp");
  }
}

}  // namespace
}  // namespace tessera
