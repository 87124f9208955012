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
#include "tessera/graph/capture.h"
#include "tessera/graph/compile.h"
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

using In = const Tensors&;

// Made anew by each test, so that none is left behind.
struct Inputs {
  Tensor x = normal({3, 4}, 1), y = positive({3, 4}, 2), row = normal({4}, 3);
  Tensor image = normal({2, 5, 5, 4}, 4), filters = normal({6, 3, 3, 4}, 5);
  Tensor gamma = positive({4}, 6), beta = normal({4}, 7);
};

Function own(Tensor (*f)(const Tensor&)) {
  return [f](In t) { return f(t[0]); };
}

std::vector<Case> pointwise_cases() {
  const Inputs in;
  return {
      {"add", [](In t) { return t[0] + t[1]; }, {in.x, in.row}},
      {"sub", [](In t) { return t[0] - t[1]; }, {in.x, in.row}},
      {"mul", [](In t) { return t[0] * t[1]; }, {in.x, in.row}},
      {"div", [](In t) { return t[0] / t[1]; }, {in.x, in.y}},
      {"scalars", [](In t) { return (2.0 - (t[0] * 3.0 + 1.0) / 2.0) * (1.0 / t[0]); }, {in.y}},
      {"same input twice", [](In t) { return t[0] * t[0] * t[0]; }, {in.x}},
      {"exp", own(exp), {in.x}},
      {"log", own(log), {in.y}},
      {"sqrt", own(sqrt), {in.y}},
      {"abs", own(abs), {in.x}},
      {"maximum", [](In t) { return maximum(t[0], t[1]) * t[0]; }, {in.x, in.y}},
      {"minimum", [](In t) { return minimum(t[0], t[1]) * t[0]; }, {in.x, in.y}},
      {"clamp", [](In t) { return exp(clamp(t[0], -0.5, 0.5)); }, {in.x}},
      {"pow", [](In t) { return pow(t[0], 2.5) + pow(t[0], 1) + pow(t[0], 0); }, {in.y}},
      {"square", [](In t) { return pow(t[0], 2); }, {in.x}},
      {"pow of tensors", [](In t) { return pow(t[0], t[1]); }, {in.y, in.x}},
      {"where",
       [](In t) { return where(greater(t[0], t[1]), exp(t[0]), t[1] * t[2]); },
       {in.x, in.y, in.row}},
      {"relu", [](In t) { return relu(t[0]) * t[0]; }, {in.x}},
      {"relu6", [](In t) { return relu6(t[0]) * t[0]; }, {in.x}},
      {"gelu", own(gelu), {in.x}},
      {"gelu_tanh", own(gelu_tanh), {in.x}},
      {"silu", own(silu), {in.x}},
      {"sigmoid", own(sigmoid), {in.x}},
      {"tanh", own(tessera::tanh), {in.x}},
      {"bias", [](In t) { return exp(bias(t[0], t[1])); }, {in.image, in.beta}},
      {"scale_channels",
       [](In t) { return scale_channels(t[0], t[1]); },
       {in.image, normal({2, 4}, 13)}},
  };
}

// Programs of one instruction, whose gradients are derived.
std::vector<Case> scalar_program_cases() {
  const Inputs in;
  const auto program = [](ScalarOp op, int inputs) {
    return [op, inputs](In t) {
      ScalarBuilder b(inputs);
      return pointwise(name_of(op), b.build(b.push(op, 0, std::min(1, inputs - 1), inputs - 1)), t);
    };
  };
  std::vector<Case> all;
  for (ScalarOp op : {ScalarOp::add, ScalarOp::sub, ScalarOp::mul, ScalarOp::div, ScalarOp::max,
                      ScalarOp::min, ScalarOp::pow})
    all.push_back({name_of(op), program(op, 2), {in.y, positive({4}, 14)}});
  for (ScalarOp op : {ScalarOp::neg, ScalarOp::abs, ScalarOp::exp, ScalarOp::log, ScalarOp::sqrt,
                      ScalarOp::tanh, ScalarOp::erf, ScalarOp::sigmoid})
    all.push_back({name_of(op), program(op, 1), {in.y}});
  all.push_back({"select", program(ScalarOp::select, 3), {in.y, in.x, in.x + 1.0}});
  return all;
}

Tensor gathered(In t) {
  const Tensor index =
      from_vector<int32_t>({3, 5}, {0, 1, -1, 1, 3, 2, 2, 2, 0, 1, 3, -4, 1, 0, 2});
  return exp(gather(t[0], 1, index));
}

std::vector<Case> structural_cases() {
  const Inputs in;
  return {
      {"reshape",
       [](In t) {
         return exp(reshape(t[0], Shape{2, 6}));
       },
       {in.x}},
      {"rows", [](In t) { return exp(rows(t[0], 1, 3)); }, {in.x}},
      {"expand",
       [](In t) {
         return exp(expand(t[0], Shape{2, 3, 4}));
       },
       {in.x}},
      {"sum_to",
       [](In t) {
         return exp(sum_to(t[0], Shape{3, 1}));
       },
       {in.x}},
      {"copy", [](In t) { return exp(copy(t[0])); }, {in.x}},
      {"sum", [](In t) { return exp(sum(t[0], {0}, false)); }, {in.x}},
      {"mean", [](In t) { return exp(mean(t[0])); }, {in.x}},
      {"permute",
       [](In t) {
         return exp(permute(t[0], std::vector{2, 0, -3, -1}));
       },
       {in.image}},
      {"transpose", [](In t) { return matmul(transpose(t[0]), t[0]); }, {in.x}},
      {"gather", gathered, {in.x}},
      {"concat", [](In t) { return exp(concat(t)); }, {in.x, in.y}},
      {"stack", [](In t) { return exp(stack(t, -1)); }, {in.x, in.y}},
      {"slice", [](In t) { return exp(slice(t[0], 1, 0, 4, 2)); }, {in.x}},
      {"pad", [](In t) { return exp(pad(t[0], 0, 1, 2)); }, {in.x}},
      {"max", [](In t) { return exp(max(t[0], 1)); }, {spread({3, 5})}},
      {"min", [](In t) { return exp(min(t[0], -1, true)); }, {spread({3, 5})}},
  };
}

Tensor dropped_out(In t) {
  const Tensor at = position();
  const TrainingScope training;
  const RandomScope random(5, at);
  return exp(dropout(t[0], 0.3));
}

std::vector<Case> layer_cases() {
  const Inputs in;
  const Conv2dParams strided{.stride = 2, .padding = 1};
  const Tensor dy = normal({2, 3, 3, 6}, 8), many = normal({2, 1, 3, 4}, 15);
  return {
      {"conv2d", [=](In t) { return conv2d(t[0], t[1], strided); }, {in.image, in.filters}},
      {"conv2d_input_grad",
       [](In t) { return conv2d_input_grad(t[0], t[1], 5, {}); },
       {dy, in.filters}},
      {"conv2d_weight_grad",
       [](In t) { return conv2d_weight_grad(t[0], t[1], 3, {}); },
       {in.image, dy}},
      {"matmul", [](In t) { return matmul(t[0], t[1], {.transpose_a = true}); }, {in.x, in.y}},
      {"matmul of pairs",
       [](In t) { return matmul(t[0], t[1], {.transpose_b = true}); },
       {many, normal({3, 5, 4}, 16)}},
      {"matmul of many and one",
       [](In t) { return matmul(t[0], t[1]); },
       {many, normal({4, 5}, 16)}},
      {"linear",
       [](In t) { return linear(t[0], t[1], t[2]); },
       {in.x, normal({5, 4}, 10), normal({5}, 11)}},
      {"average_pool2d", [](In t) { return exp(average_pool2d(t[0], {.kernel = 2})); }, {in.image}},
      {"global_average_pool", [](In t) { return exp(global_average_pool(t[0])); }, {in.image}},
      {"shortcut",
       [](In t) { return exp(shortcut(t[0], {.stride = 2, .channels = 6})); },
       {in.image}},
      {"dropout", dropped_out, {in.x}},
      {"softmax", own(softmax), {in.x}},
      {"log_softmax", own(log_softmax), {in.x}},
      {"cross_entropy", [](In t) { return cross_entropy(t[0], labels(), {0.1}); }, {in.x}},
      {"cross_entropy of targets",
       [](In t) { return cross_entropy(t[0], t[1], {0.2}); },
       {in.x, in.y}},
      {"mse", [](In t) { return mse(t[0], t[1]); }, {in.x, in.y}},
      {"bce", [](In t) { return bce_with_logits(t[0], t[1]); }, {in.x, in.y}},
      {"max_pool2d",
       [](In t) { return exp(max_pool2d(t[0], {.kernel = 2})); },
       {spread({2, 6, 6, 2})},
       Second::error},
  };
}

std::vector<Case> norm_cases() {
  const Inputs in;
  // Buffers of a store, because a captured step updates them.
  const auto store = std::make_shared<Store>(1, DType::f64);
  const Tensor mean = store->buffer("mean", {4}, Initializer::zeros());
  const Tensor variance = store->buffer("variance", {4}, Initializer::ones());
  const auto batch = [=](bool training) {
    return [=, kept = store](In t) {
      const TrainingScope scope(training);
      return batch_norm(t[0], t[1], t[2], mean, variance, {.momentum = 0});
    };
  };
  return {
      {"batch_norm in evaluation", batch(false), {in.image, in.gamma, in.beta}},
      {"batch_norm in training", batch(true), {in.image, in.gamma, in.beta}, Second::error},
      {"layer_norm",
       [](In t) { return layer_norm(t[0], t[1], t[2], {}); },
       {in.x, in.row, in.row + 1.0},
       Second::error},
      {"group_norm",
       [](In t) { return group_norm(t[0], t[1], t[2], {.groups = 2}); },
       {in.image, in.gamma, in.beta},
       Second::error},
  };
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (auto part :
       {pointwise_cases, scalar_program_cases, structural_cases, layer_cases, norm_cases})
    for (Case& c : part()) all.push_back(std::move(c));
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

// The upstream gradient of ones, too, which gradients() makes itself.
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
  // Ops that update, of the optimizers and of the running statistics: nothing is computed from what
  // they give. Pictures are bytes.
  for (const char* name : {"sgd_update", "adamw_update", "count_up", "lr_if_finite",
                           "batch_norm_update", "image_normalize"})
    seen.insert(name);
  for (const std::string& name : op_names()) EXPECT_TRUE(seen.contains(name)) << name;
}

}  // namespace
}  // namespace tessera
