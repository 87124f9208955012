// Tests every op, differentiable or not, in every mode: a gradient is right or an error that names
// the op, never silently zero.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "tessera/engine/recorder.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/compile.h"
#include "tessera/layers/ops/metrics.h"
#include "tessera/tests/graph/gradient_cases.h"

namespace tessera {
namespace {

using namespace gradient_cases;

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

TEST(Gradients, OfSixteenBitsHaveTheBitsOfEagerCodeAndAreNearFloat64) {
  for (const DType half : {DType::bf16, DType::f16})
    for (const Case& c : cases()) {
      auto compiled = compile([&](const Tensors& t) { return Tensors{c.f(t)}; });
      const auto part = [&](const Tensors& t) { return compiled(t)[0]; };
      const auto found = in_half(c.f, c.inputs, half);
      EXPECT_EQ(in_half(part, c.inputs, half), found) << c.name << " " << name_of(half);
      Tensors rounded;
      for (const Tensor& x : c.inputs)
        rounded.push_back(is_float(x.dtype()) ? cast(cast(x, half), DType::f64) : x);
      EXPECT_LE(distance(in_half(c.f, rounded, DType::f64), found),
                half == DType::bf16 ? 0x1p-5 : 0x1p-8)
          << c.name << " " << name_of(half);
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
    EXPECT_EQ(inner.trace_count(), 0) << c.name;  // inlined in the step
  }
}

// Returns the values of f and its gradients.
std::vector<double> everything_of(const Function& f, const Tensors& inputs) {
  const Tensors leaves = leaves_of(inputs);
  const Tensor y = f(leaves);
  Tensors results{y};
  for (const Tensor& slope : gradients(y, leaves, cast(normal(y.shape(), 99), y.dtype())))
    results.push_back(slope);
  std::vector<double> all;
  for (const Tensor& result : results)
    for (const double value : cast(result, DType::f64).to_vector<double>()) all.push_back(value);
  return all;
}

bool same_numbers(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double x, double y) {
    return (std::isnan(x) && std::isnan(y)) || std::memcmp(&x, &y, sizeof x) == 0;
  });
}

TEST(Gradients, ANanInAnyArgumentOfAnElementwiseOpReachesItsResult) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Case& c : elementwise_cases())
      for (size_t k = 0; k < c.inputs.size(); ++k) {
        SCOPED_TRACE(std::string(c.name) + ", argument " + std::to_string(k));
        const std::string name = c.name;
        if (name != "where" && name != "select" &&
            name != "prelu") {  // these drop unselected values
          const Tensor y = cast(c.f(with_nan(c.inputs, k, 1, dtype)), DType::f64);
          for (const double value : y.to_vector<double>()) EXPECT_TRUE(std::isnan(value)) << value;
        }
        const Tensors some = with_nan(c.inputs, k, 3, dtype);
        auto compiled = compile([&](const Tensors& t) { return Tensors{c.f(t)}; });
        const auto part = [&](const Tensors& t) { return compiled(t)[0]; };
        EXPECT_TRUE(same_numbers(everything_of(part, some), everything_of(c.f, some)));
      }
}

// The backward pass includes the upstream gradient of ones, which gradients() makes.
TEST(Gradients, InACapturedStepAreTheBackwardPassFromTheirFirstNodeOn) {
  const auto loss = [](const Tensor& x) { return sum(exp(x) * x); };
  const Specs arguments{TensorSpec{DType::f64, {3, 4}, {}}};
  const Graph forward =
      capture([&](const Tensors& t) { return Tensors{loss(requires_grad(t[0]))}; }, arguments);
  const Graph step = capture(
      [&](const Tensors& t) {
        const Tensor x = requires_grad(t[0]);
        return gradients(loss(x), Tensors{x});
      },
      arguments);
  ASSERT_GT(step.nodes.size(), forward.nodes.size());
  for (size_t i = 0; i < step.nodes.size(); ++i)
    EXPECT_EQ(step.nodes[i].phase, i < forward.nodes.size() ? Phase::forward : Phase::backward)
        << step.node_text(i);
}

TEST(Gradients, OfGradientsAreRightOrAnErrorThatNamesTheOp) {
  for (const Case& c : cases()) {
    const auto slope = [&](const Tensors& t) {
      const Tensor y = c.f(t);
      Tensor all = sum(t[0]);  // depends on the inputs even if the gradients are constant
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

// An op without a gradient.
struct NoParams {
  bool operator==(const NoParams&) const = default;
};
class Twice final : public OpBase<Twice> {
 public:
  std::string_view name() const override { return "twice"; }
  Specs infer(SpecView in) const override { return {in[0]}; }
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    for (int64_t i = 0; i < in[0].elements(); ++i)
      out[0].as<double>()[i] = 2 * in[0].as<double>()[i];
  }
  const NoParams params{};
};

// Functions through which no gradient flows, and the text of the error.
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
       "max at head returns integers, which have no gradient; use detach()"},
      {[](const Tensors& t) { return cast(top_k_correct(t[0], labels()), DType::f64); },
       "top_k_correct at head has no gradient; use detach()"},
  };
}

// The loss also depends on x by a path with a gradient, and that gradient alone would be wrong.
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
    // Tensors computed from the result are stopped too; detach() avoids the error.
    const Tensor y = stop.f({x});
    EXPECT_NE(error_of([&] { gradients(sum(x * 2.0) + sum(exp(y)), Tensors{x}); }), "no error");
    EXPECT_EQ(error_of([&] { gradients(sum(x * 2.0) + sum(exp(detach(y))), Tensors{x}); }),
              "no error");
  }
}

TEST(Gradients, AStopIsOfTheCallThatHadIt) {
  auto part = compile([](const Tensor& t) { return t * 2.0; });
  const Tensor x = requires_grad(normal({3}, 1));
  const Tensor stopped = apply1(std::make_shared<Twice>(), {x});
  EXPECT_NE(error_of([&] { gradients(sum(part(stopped) + x), Tensors{x}); }), "no error");
  EXPECT_EQ(error_of([&] { gradients(sum(part(detach(x)) + x), Tensors{x}); }), "no error");
}

TEST(Gradients, WhatLiesBehindAResultGoesWithIt) {
  auto part = compile([](const Tensor& t) { return exp(t); });
  const Tensor x = requires_grad(normal({3}, 1));
  std::weak_ptr<Storage> behind;
  {
    const Tensor middle = x * 2.0;
    behind = middle.impl()->storage;
    const Tensor result = part(middle);
    EXPECT_FALSE(behind.expired());
  }
  EXPECT_TRUE(behind.expired());
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
    Specs infer(SpecView in) const override { return {in[0]}; }
    void run(CpuContext&, Buffers, Buffers, Buffer) const override {}
    bool differentiable() const override { return true; }
    Tensors grad(const GradArgs&) const override { return {Tensor()}; }
    const NoParams params{};
  };
  const Tensor x = requires_grad(normal({3, 4}, 1));
  const std::string says =
      error_of([&] { gradients(sum(apply1(std::make_shared<Forgets>(), {x})), Tensors{x}); });
  EXPECT_NE(says.find("forgets: its grad() must return a gradient for input 0"), std::string::npos)
      << says;
}

// Errors of a user's op: a gradient of another dtype or shape, no kernel.
class Careless final : public OpBase<Careless> {
 public:
  enum class Candidate { other_dtype, other_shape };
  struct Params {
    Candidate way;
    bool operator==(const Params&) const = default;
  };
  explicit Careless(Candidate way) : params{way} {}
  std::string_view name() const override { return "careless"; }
  Specs infer(SpecView in) const override { return {in[0]}; }
  void run(CpuContext&, Buffers in, Buffers out, Buffer) const override {
    std::copy_n(in[0].as<double>(), in[0].elements(), out[0].as<double>());
  }
  bool differentiable() const override { return true; }
  Tensors grad(const GradArgs& args) const override {
    const Tensor& slope = args.grad_outputs[0];
    return {params.way == Candidate::other_dtype ? cast(slope, DType::f32) : sum(slope, {0}, true)};
  }
  const Params params;
};

TEST(Gradients, OfAnotherShapeOrDTypeThanTheInputAreAnErrorForTheAuthorOfTheOp) {
  const Tensor x = requires_grad(normal({3, 4}, 1));
  const auto says = [&](Careless::Candidate way) {
    const ModulePathScope head("head");
    const Tensor y = apply1(std::make_shared<Careless>(way), {x});
    return error_of([&] { gradients(sum(y), Tensors{x}); });
  };
  EXPECT_EQ(says(Careless::Candidate::other_dtype),
            "careless at head: its grad() must return a gradient like input 0, float64[3x4], but "
            "returns float32[3x4]; sum or cast() the gradient");
  EXPECT_NE(says(Careless::Candidate::other_shape).find("returns float64[1x4]"), std::string::npos);
}

TEST(Gradients, AnOpWithoutAKernelIsAnErrorForItsAuthor) {
  class Empty final : public OpBase<Empty> {
   public:
    std::string_view name() const override { return "empty_op"; }
    Specs infer(SpecView in) const override { return {in[0]}; }
    const NoParams params{};
  };
  const std::string says = error_of([&] { apply1(std::make_shared<Empty>(), {normal({3}, 1)}); });
  EXPECT_NE(says.find("empty_op: runs_on() returns true, but this op has no kernel; override "
                      "run(CpuContext&, ...)"),
            std::string::npos)
      << says;
}

// A network in two parts, with the tensor between them.
struct TwoParts {
  Tensor x, w1, w2;
  Tensor between() const { return tessera::tanh(linear(x, w1)); }
  Tensor loss(const Tensor& h) const { return sum(linear(h * h + exp(h), w2)); }
};
TwoParts two_parts(const Tensors& t) { return {t[0], t[1], t[2]}; }

TEST(Gradients, OfIntermediateTensorsAreThoseOfALeafInTheirPlace) {
  const Tensors inputs{normal({3, 4}, 1), normal({5, 4}, 2), normal({1, 5}, 3)};
  const Tensors leaves = leaves_of(inputs);
  const TwoParts net = two_parts(leaves);
  const Tensor leaf = requires_grad(detach(net.between()));
  const auto wanted = gradients(net.loss(leaf), Tensors{leaf})[0].to_vector<double>();
  const auto of_weights = [&] { return gradients(net.loss(net.between()), Tensors{leaves[1]})[0]; };
  const auto of_w1 = of_weights().to_vector<double>();
  {
    const Tensor h = net.between();
    EXPECT_EQ(gradients(net.loss(h), Tensors{h})[0].to_vector<double>(), wanted);
    // The tape before h is still there, and another loss of h has a gradient.
    EXPECT_EQ(gradients(sum(h * 2.0), Tensors{h})[0].to_vector<double>(),
              std::vector<double>(15, 2.0));
    gradients(sum(h), Tensors{leaves[0]});
  }
  const Tensor h = net.between(), y = h * 3.0;  // y is not on the path to the loss
  const Tensors all = gradients(net.loss(h), Tensors{leaves[1], h, y});
  EXPECT_EQ(all[0].to_vector<double>(), of_w1);
  EXPECT_EQ(all[1].to_vector<double>(), wanted);
  EXPECT_EQ(all[2].to_vector<double>(), std::vector<double>(15, 0.0));
  // A second loss of one forward pass finds the tape freed.
  const Tensor scores = h * 5.0;
  gradients(sum(scores), Tensors{h});
  EXPECT_NE(error_of([&] { gradients(sum(scores * scores), Tensors{h}); }).find("was freed"),
            std::string::npos);
  const Tensor loss = sum(leaves[0]) * 1.0;
  EXPECT_EQ(gradients(loss, Tensors{loss})[0].item<double>(), 1.0);
  EXPECT_NE(error_of([&] { gradients(loss, Tensors{detach(h)}); }).find("is not tracked"),
            std::string::npos);
}

TEST(Gradients, OfIntermediateTensorsHaveGradientsAgain) {
  const Tensor x = requires_grad(normal({4}, 1));
  const Tensor h = x * x;
  const Tensor slope = gradients(sum(h * h * h), Tensors{h}, {}, CreateGraph::yes)[0];  // 3 h^2
  const std::vector<double> found = gradients(sum(slope), Tensors{x})[0].to_vector<double>();
  const std::vector<double> v = x.to_vector<double>();
  for (size_t i = 0; i < v.size(); ++i) EXPECT_NEAR(found[i], 12 * v[i] * v[i] * v[i], 1e-12);
}

// Grad-CAM: activations, weighted by the mean of their gradients.
TEST(Gradients, OfIntermediateTensorsInACompiledStepHaveTheBitsOfEagerCode) {
  const auto cam = [](const Tensors& t) {
    const TwoParts net = two_parts(t);
    const Tensor h = net.between();
    const Tensor slope = gradients(net.loss(h), Tensors{h})[0];
    return Tensors{relu(sum(h * mean(slope, {0}, true), {1}, false)), slope};
  };
  Store store(1, DType::f64);
  const Tensors inputs{normal({3, 4}, 1), store.parameter("w1", {5, 4}, Initializer::normal(1)),
                       store.parameter("w2", {1, 5}, Initializer::normal(1))};
  const Tensors eager = cam(inputs);
  auto step = compile(
      [&](const Tensor& x) {
        return cam({x, inputs[1], inputs[2]});
      },
      {.verify_plan = true});
  const Tensors graph = step(inputs[0]);
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(graph[i].to_vector<double>(), eager[i].to_vector<double>()) << i;
  EXPECT_NE(eager[1].to_vector<double>(), std::vector<double>(15, 0.0));
}

// The function is one op on the tape, which hides that the loss depends on h.
TEST(Gradients, OfOneResultOfACompiledFunctionByAnotherAreAnErrorNotZero) {
  const Tensor x = requires_grad(normal({3}, 1));
  auto f = compile([](const Tensors& t) {
    const Tensor h = exp(t[0]);
    return Tensors{sum(h * h), h};
  });
  const Tensors results = f(Tensors{x});
  const std::string says = error_of([&] { gradients(results[0], Tensors{results[1]}); });
  EXPECT_NE(says.find("compute the gradients in the function"), std::string::npos) << says;
  const Tensors again = f(Tensors{x});
  EXPECT_EQ(gradients(sum(again[1] * 3.0), Tensors{again[1]})[0].to_vector<double>(),
            std::vector<double>(3, 3.0));
}

// A gradient penalty: the loss reads the gradient of the network with respect to its input.
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

// Returns the names of the ops in the sources: `name() const override { return "conv2d"; }`.
std::set<std::string> op_names() {
  std::set<std::string> names;
  const std::regex pattern(
      R"re(std::string_view name\(\) const override \{\s*return "(\w+)"|kName = "(\w+)")re");
  for (const char* tier : {"engine", "layers"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             std::filesystem::path(TESSERA_SOURCE_DIR) / tier)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      const std::string text((std::istreambuf_iterator<char>(file)), {});
      for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i)
        names.insert((*i)[1].matched ? (*i)[1] : (*i)[2]);
    }
  return names;
}

// Records the names of the ops that run.
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
  Tensor snapshot(const Tensor& tensor) override { return tensor; }
  uint64_t version(const Tensor&) override { return 0; }

 private:
  std::set<std::string>& names_;
};

TEST(Gradients, NoOpIsForgottenHere) {
  const std::vector<Case> all = cases();
  std::set<std::string> seen;
  {
    Seen recorder(seen);
    const RecorderScope scope(&recorder);
    for (const Case& c : all) {
      const Tensors leaves = leaves_of(c.inputs);
      const Tensor y = c.f(leaves);
      gradients(y, leaves, normal(y.shape(), 99));
    }
    for (const Stop& stop : stops()) stop.f({normal({3, 4}, 1)});
    const Tensor n = arange(4, DType::i64);
    for (const Tensor& of_integers : {n + n, n - n, n * n, floor_divide(n, 2), remainder(n, 2),
                                      maximum(n, n), minimum(n, n), one_hot(n, 4)})
      EXPECT_TRUE(of_integers.defined());
  }
  // Update ops of optimizers and running statistics: nothing is computed from their results. The
  // image ops read bytes. Only the compiler packs filters and fuses chains. Gradients are what
  // processes exchange.
  for (const char* name :
       {"sgd_update", "adamw_update", "increment_step", "lr_if_finite", "batch_norm_update",
        "rmsprop_update", "update_gate", "image_normalize", "flip_left_right", "pack_filters",
        "conv2d_chain", "exchange_start", "exchange_wait", "scale_tensors"})
    seen.insert(name);
  for (const std::string& name : op_names()) EXPECT_TRUE(seen.contains(name)) << name;
}

}  // namespace
}  // namespace tessera
