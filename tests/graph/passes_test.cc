// Tests how often each pass fires in each network, and how layers are fused. The counts are lower
// limits: a pass may fire more often, but a change that disables one is noticed.
#include <map>

#include <gtest/gtest.h>

#include "tessera/engine/structural.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/lower.h"
#include "tessera/graph/program.h"
#include "tessera/layers/conv2d/conv2d.h"
#include "tessera/layers/modules.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/runtime/simd/isa.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::small_options;
using testing_zoo::ZooStep;

struct Least {
  const char* model;
  int fuse_pointwise, fuse_epilogues, fuse_prologues, fuse_consumers, order_updates, in_place;
  int simplify = 0;  // consecutive views, as around channel weights
  int fuse_late_prologues = 0;
};

// No network records dead or equal nodes; compile_test.cc has graphs that do.
constexpr Least kMin[] = {{"mlp", 2, 5, 0, 0, 4, 1},
                          {"lenet5", 4, 9, 0, 0, 7, 1},
                          {"cnn_bn", 4, 5, 4, 6, 10, 5},
                          {"resnet20", 37, 19, 9, 37, 41, 23, 0, 4},
                          {"resnet32", 61, 31, 15, 61, 67, 35, 0, 6},
                          {"resnet44", 85, 43, 21, 85, 91, 47, 0, 9},
                          {"resnet56", 109, 55, 27, 109, 116, 59, 0, 12},
                          {"resnet110", 217, 109, 54, 217, 230, 113, 0, 25},
                          {"resnet18", 35, 18, 7, 29, 43, 22, 0, 6},
                          {"resnet34", 67, 34, 14, 57, 77, 38, 0, 10},
                          {"resnet50", 84, 50, 28, 87, 113, 55, 0, 11},
                          {"resnet101", 169, 101, 62, 189, 220, 106, 0, 17},
                          {"resnet152", 254, 152, 96, 291, 328, 157, 0, 24},
                          {"resnet18_cifar", 36, 17, 8, 39, 42, 22, 0, 5},
                          {"wide_resnet", 37, 37, 24, 49, 55, 27},
                          {"alexnet", 7, 14, 0, 0, 12, 5},
                          {"vgg11_bn", 10, 19, 8, 11, 28, 13},
                          {"vgg13_bn", 12, 23, 10, 15, 33, 15},
                          {"vgg16_bn", 15, 29, 13, 21, 42, 18},
                          {"vgg19_bn", 18, 35, 16, 27, 50, 21},
                          {"densenet121", 179, 121, 88, 130, 265, 123, 0, 25},
                          {"densenet_bc", 147, 99, 98, 147, 217, 101},
                          {"mobilenet_v2", 45, 45, 14, 80, 110, 56, 0, 12},
                          {"googlenet", 57, 49, 17, 60, 128, 96, 0, 3},
                          {"seresnet18", 43, 42, 7, 23, 71, 54, 16, 2},
                          {"seresnet50", 100, 98, 28, 74, 167, 119, 32, 3},
                          {"shufflenet_v2_x0_5", 37, 21, 15, 69, 128, 90, 0, 4},
                          {"shufflenet_v2_x1_0", 37, 21, 15, 69, 128, 90, 0, 4},
                          {"shufflenet_v2_x1_5", 37, 21, 15, 69, 128, 90, 0, 4},
                          {"shufflenet_v2_x2_0", 37, 21, 15, 69, 128, 90, 0, 4},
                          {"mobilenet_v3_small", 38, 48, 11, 44, 103, 66, 18, 6},
                          {"mobilenet_v3_large", 46, 57, 13, 69, 126, 75, 16, 15},
                          {"efficientnet_b0", 50, 74, 26, 51, 163, 102, 32, 15},
                          {"efficientnet_b1", 78, 108, 35, 69, 230, 143, 46, 21},
                          {"efficientnet_b2", 78, 108, 35, 69, 230, 143, 46, 21},
                          {"efficientnet_b3", 90, 123, 40, 77, 259, 161, 52, 24},
                          {"efficientnet_b4", 114, 153, 50, 93, 320, 197, 64, 26},
                          {"regnet_y_400mf", 133, 81, 12, 60, 168, 103, 32, 12},
                          {"regnet_y_800mf", 117, 71, 14, 70, 148, 91, 28, 7},
                          {"regnet_y_1_6gf", 221, 136, 27, 135, 277, 169, 54, 13},
                          {"regnet_y_3_2gf", 173, 106, 22, 110, 218, 133, 42, 10},
                          {"convnext_atto", 12, 65, 13, 0, 97, 13, 0, 8},
                          {"convnext_femto", 12, 65, 13, 0, 97, 13, 0, 8},
                          {"convnext_pico", 12, 65, 13, 0, 97, 13, 0, 8},
                          {"convnext_nano", 14, 75, 15, 0, 111, 15, 0, 8},
                          {"convnext_tiny", 18, 95, 18, 0, 138, 19, 0, 10}};

void PrintTo(const Least& least, std::ostream* out) { *out << least.model; }

struct Lowered {
  std::map<std::string, int> fired;
  int recorded, left;  // numbers of nodes
};

Lowered lowered(const std::string& model, std::vector<std::string> disabled_passes = {}) {
  ZooStep step(model, small_options(model), 2);
  const Graph recorded = capture(step.function(), step.specs());
  Compiled compiled(step.function(), {.disabled_passes = std::move(disabled_passes)});
  const Program& program = *compiled.prepare(step.specs()).program();
  Lowered result{{},
                 static_cast<int>(recorded.nodes.size()),
                 static_cast<int>(program.compiled().graph.nodes.size())};
  for (const PassRecord& pass : program.compiled().passes) result.fired[pass.name] = pass.fired;
  return result;
}

// Returns the number of nodes removed: each firing of these passes removes one; dead_code erases
// nodes that `simplify` left unused.
int steps_saved(const std::map<std::string, int>& fired) {
  return fired.at("dead_code") + fired.at("common_subexpressions") + fired.at("fuse_pointwise") +
         fired.at("fuse_epilogues") + fired.at("fuse_prologues") + fired.at("fuse_consumers");
}

// Returns true if there are convolutions that apply a prologue, such as Winograd's.
bool reads_in_parts() {
  if constexpr (kNativeKernels) return has_native_kernels();
  return false;
}

class Passes : public testing::TestWithParam<Least> {};

TEST_P(Passes, FireInEveryNetwork) {
  const Least& least = GetParam();
  const Lowered all = lowered(least.model);
  const std::map<std::string, int> limits = {
      {"simplify", least.simplify},
      {"dead_code", 0},
      {"common_subexpressions", 0},
      {"fuse_pointwise", least.fuse_pointwise},
      {"fuse_epilogues", least.fuse_epilogues},
      {"fuse_prologues", reads_in_parts() ? least.fuse_prologues : 0},
      {"fuse_consumers", least.fuse_consumers},
      {"fuse_late_prologues", reads_in_parts() ? least.fuse_late_prologues : 0},
      {"order_updates", least.order_updates},
      {"in_place", least.in_place},
      {"fold_constants", 0},  // a training step has no constants: frozen_test.cc
      {"fold_scales", 0},
      {"pack_constants", 0},
      {"fuse_chains", 0}};
  ASSERT_EQ(all.fired.size(), limits.size());
  for (const auto& [pass, count] : all.fired) {
    RecordProperty(pass, count);
    ASSERT_TRUE(limits.contains(pass)) << pass;
    EXPECT_GE(count, limits.at(pass)) << pass;
    const bool of_constants =
        pass.starts_with("fold_") || pass == "pack_constants" || pass == "fuse_chains";
    EXPECT_TRUE(!of_constants || count == 0) << pass;
  }
  EXPECT_EQ(all.recorded - all.left, steps_saved(all.fired));
}

TEST_P(Passes, DoNothingWhenTheyAreSwitchedOff) {
  const Lowered all = lowered(GetParam().model);
  for (const auto& [pass, ignored] : all.fired) {
    const Lowered without = lowered(GetParam().model, {pass});
    EXPECT_EQ(without.fired.at(pass), 0) << pass;
    EXPECT_EQ(without.recorded - without.left, steps_saved(without.fired)) << pass;
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, Passes, testing::ValuesIn(kMin),
                         [](const auto& info) { return std::string(info.param.model); });

TEST(PassesOfTheZoo, AreCountedForEveryModel) {
  std::vector<std::string> counted;
  for (const Least& least : kMin) counted.push_back(least.model);
  EXPECT_EQ(counted, model_names());
}

// The parts of the fused nodes below.
struct Parts {
  Store store{5};
  Conv2d conv{store, "conv", {.in = 3, .out = 8, .kernel = 3, .padding = 1}};
  Conv2d plain{store, "plain", {.in = 8, .out = 8, .kernel = 3, .padding = 1, .bias = false}};
  BatchNorm2d bn{store, "bn", {.channels = 8}};
  Linear fc{store, "fc", {.in = 8, .out = 4}};
};

// Returns the names of the nodes in order: "conv2d batch_norm+relu".
std::string names(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    if (!text.empty()) text += ' ';
    text += node.op->name();
  }
  return text;
}

// Expects these nodes before and after lowering, and the same bits as without lowering.
void expect_fused(const StepFunction& step, const Shape& shape, const std::string& before,
                  const std::string& after) {
  const Tensor x = random_normal(shape, 1);
  EXPECT_EQ(names(capture(step, {x.spec()})), before);
  Compiled fused(step, {.verify_plan = true}), eager(step, {.eager = true});
  EXPECT_EQ(names(fused.prepare({x.spec()}).compiled_graph()->graph), after);
  const Tensors results = fused.call({x}), wanted = eager.call({x});
  ASSERT_EQ(results.size(), wanted.size());
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].to_vector<float>(), wanted[i].to_vector<float>()) << after << ", " << i;
}

// Two small nodes compute scale and shift of the running statistics, the third all the rest.
TEST(Fusion, EvaluationOfConvolutionBatchNormShortcutAndReluIsOneStep) {
  const NoGradScope no_grad;  // otherwise values for gradients are kept
  Parts p;
  const std::string scale = "add_scalar sqrt div mul sub", fused = "add_scalar+sqrt+div mul+sub";
  const auto plain = [&](const Tensors& x) { return Tensors{relu(p.bn(p.conv(x[0])))}; };
  expect_fused(plain, {2, 7, 7, 3}, "conv2d bias " + scale + " batch_norm relu", fused + " conv2d");
  const auto shortcut = [&](const Tensors& x) { return Tensors{relu(p.bn(p.plain(x[0])) + x[0])}; };
  expect_fused(shortcut, {2, 7, 7, 8}, "conv2d " + scale + " batch_norm add relu",
               fused + " conv2d");
}

TEST(Fusion, BiasAndActivationGoIntoTheProduct) {
  const NoGradScope no_grad;
  Parts p;
  const auto step = [&](const Tensors& x) { return Tensors{gelu(p.fc(x[0]))}; };
  expect_fused(step, {5, 8}, "matmul bias gelu", "matmul");
}

TEST(Fusion, TrainingNormalisesAddsAndClipsInOneStep) {
  Parts p;
  const auto step = [&](const Tensors& x) {
    TrainingScope training;
    return Tensors{relu(p.bn(p.plain(x[0])) + x[0])};
  };
  const std::string rest = "batch_norm_finalise batch_norm_update ";
  expect_fused(step, {2, 7, 7, 8}, "conv2d block_moments " + rest + "batch_norm add relu",
               "conv2d " + rest + "batch_norm+add+relu");
}

// The normalized tensor is not stored: both convolutions that read it and the gradient of relu
// recompute it from the first convolution's result. If there are 80 channels, the gradient with
// respect to the filters computes all of it first.
class FusedBlock : public testing::TestWithParam<int64_t> {};

TEST_P(FusedBlock, OfTwoConvolutionsNormalisesOnTheWay) {
  if (!reads_in_parts()) GTEST_SKIP() << "no convolutions by Winograd's algorithm here";
  const int64_t c = GetParam();
  Store store{5};
  Conv2d first{store, "a", {.in = c, .out = c, .kernel = 3, .padding = 1, .bias = false}};
  Conv2d second{store, "b", {.in = c, .out = c, .kernel = 3, .padding = 1, .bias = false}};
  BatchNorm2d bn{store, "bn", {.channels = c}};
  const Tensors filters = {store.find("a.weight"), store.find("b.weight")};
  const auto step = [&](const Tensors& x) {
    TrainingScope training;
    const Tensor loss = mean(second(relu(bn(first(x[0])))));
    Tensors results = gradients(loss, filters);
    results.push_back(loss);
    return results;
  };
  const std::string mean_and_back = "sum_run view div_scalar fill div_scalar_grad view expand ";
  const std::string finalise = "batch_norm_finalise batch_norm_update ",
                    back = "batch_norm_grad_finalise batch_norm_input_grad conv2d_weight_grad";
  expect_fused(step, {5, 15, 13, c},
               "conv2d block_moments " + finalise + "batch_norm relu conv2d " + mean_and_back +
                   "conv2d_input_grad conv2d_weight_grad relu_grad block_gradient_sums " + back,
               "conv2d " + finalise + "conv2d " + mean_and_back +
                   "conv2d_weight_grad conv2d_input_grad " + back);
}

INSTANTIATE_TEST_SUITE_P(Channels, FusedBlock, testing::Values(24, 64, 80));

// The output y of a residual block is stored for the forward pass only: its backward users
// recompute it from values that are live. The output z of the next block, which reads y, stays.
class LateReaders : public testing::TestWithParam<int64_t> {};

TEST_P(LateReaders, MakeWhatABlockEndsWithAgain) {
  if (!reads_in_parts()) GTEST_SKIP() << "no convolutions by Winograd's algorithm here";
  Store store{5};
  const auto conv = [&](const char* name, int64_t kernel, int64_t stride) {
    return Conv2d(store, name,
                  {.in = 40,
                   .out = 40,
                   .kernel = kernel,
                   .stride = stride,
                   .padding = kernel / 2,
                   .bias = false});
  };
  Conv2d a = conv("a", 3, 1), b = conv("b", 1, 1), c = conv("c", GetParam(), 1),
         d = conv("d", 1, 2);
  BatchNorm2d bn_a{store, "bn_a", {.channels = 40}}, bn_b{store, "bn_b", {.channels = 40}},
      bn_c{store, "bn_c", {.channels = 40}};
  const StepFunction step = [&](const Tensors& x) {
    TrainingScope training;
    const Tensor y = relu(bn_a(a(x[0])) + bn_b(b(x[0])));
    const Tensor z = relu(bn_c(c(y)) + y);
    return gradients(mean(d(z)), store.parameters());
  };
  const Tensor x = random_normal({9, 20, 20, 40}, 1);
  const auto lowered = [&](std::vector<std::string> without) {
    return Compiled(step, {.disabled_passes = std::move(without), .verify_plan = true});
  };
  Compiled with = lowered({}), apart = lowered({"fuse_late_prologues"});
  const Program &short_lives = *with.prepare({x.spec()}).program(),
                &long_lives = *apart.prepare({x.spec()}).program();
  // Returns the users of the outputs of the two blocks.
  const auto users_of = [](const Graph& graph, std::string_view producer) {
    std::vector<std::string> names;
    const auto readers = graph.users();
    for (const Node& node : graph.nodes)
      if (node.op->name() == producer)
        for (const int reader : readers[node.outputs[0]])
          names.emplace_back(graph.nodes[reader].op->name());
    return names;
  };
  const std::vector<std::string> forward = {"conv2d", "batch_norm+add+relu"};
  EXPECT_EQ(users_of(short_lives.compiled().graph, "batch_norm+batch_norm+add+relu"), forward);
  EXPECT_GT(users_of(long_lives.compiled().graph, "batch_norm+batch_norm+add+relu").size(), 2u);
  EXPECT_GT(users_of(short_lives.compiled().graph, "batch_norm+add+relu").size(), 1u);
  EXPECT_LT(short_lives.compiled().arena_bytes(), long_lives.compiled().arena_bytes());
  const Tensors results = with.call({x}), wanted = apart.call({x});
  for (size_t i = 0; i < results.size(); ++i)
    EXPECT_EQ(results[i].to_vector<float>(), wanted[i].to_vector<float>()) << i;
}

INSTANTIATE_TEST_SUITE_P(Kernels, LateReaders, testing::Values(1, 3));

// Filters are rounded in the scratch of the convolutions that read them, unless more than two do.
TEST(FusedFilters, AreRoundedWhereTheyAreRead) {
  Store store{5};
  Conv2d conv{store, "a", {.in = 3, .out = 8, .kernel = 3, .padding = 1, .bias = false}};
  const auto step = [&](int parts, const Tensors& x) {
    const Tensor images = requires_grad(x[0]);
    Tensor sum;
    for (int i = 0; i < parts; ++i) {
      const Tensor y = mean(cast(conv(cast(images + i, DType::bf16)), DType::f32));
      sum = i == 0 ? y : sum + y;
    }
    Tensors results = gradients(sum, {{images, store.find("a.weight")}});
    results.push_back(sum);
    return results;
  };
  for (const int parts : {1, 2}) {
    const auto one = [&](const Tensors& x) { return step(parts, x); };
    const Tensor x = random_normal({2, 9, 9, 3}, 1);
    Compiled fused(one, {.verify_plan = true}), eager(one, {.eager = true});
    const Graph& graph = fused.prepare({x.spec()}).compiled_graph()->graph;
    EXPECT_EQ(std::ranges::count_if(graph.nodes,
                                    [&](const Node& node) {
                                      return node.op->name() == "cast" &&
                                             graph.values[node.outputs[0]].spec.shape ==
                                                 Shape({8, 3, 3, 3}) &&
                                             is_half(graph.values[node.outputs[0]].spec.dtype);
                                    }),
              parts == 1 ? 0 : 1);
    const Tensors results = fused.call({x}), wanted = eager.call({x});
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(results[i].to_vector<float>(), wanted[i].to_vector<float>()) << parts << ", " << i;
  }
}

// The gradient of 1x1 filters with stride 2 computes whole rows of the ReLU and picks their pixels.
// Blocks of pixels begin and end within rows, which are of odd length.
TEST(FusedPrologue, OfStridedPixels) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = cast(random_normal({30, 9, 13, 64}, 1), dtype);
    const Tensor dy = cast(random_normal({30, 5, 7, 24}, 2), dtype);
    const auto step = [](const Tensors& in) {
      return Tensors{conv2d_weight_grad(relu(in[0]), in[1], 1, {.stride = 2})};
    };
    Compiled fused(step, {.verify_plan = true}), eager(step, {.eager = true});
    const auto& compiled = *fused.prepare({x.spec(), dy.spec()}).compiled_graph();
    EXPECT_EQ(compiled.graph.nodes.size(), reads_in_parts() ? 1u : 2u);
    EXPECT_EQ(fused.call({x, dy})[0].to_vector<float>(), eager.call({x, dy})[0].to_vector<float>());
  }
}

// The cast is fused into the pool, which then reads 16 bits as float32.
TEST(FusedCast, OfAPooledInput) {
  const auto step = [&](const Tensors& x) {
    return Tensors{max_pool2d(cast(cast(x[0], DType::bf16), DType::f32), {.kernel = 2})};
  };
  const Tensor x = random_normal({2, 8, 6, 5}, 1);
  Compiled fused(step, {.verify_plan = true}), eager(step, {.eager = true});
  EXPECT_EQ(fused.call({x})[0].to_vector<float>(), eager.call({x})[0].to_vector<float>());
}

// The sum reads 16 bits as float32, with the bits of a cast before it.
TEST(FusedCast, OfASum) {
  const auto step = [&](const Tensors& x) { return Tensors{sum(cast(x[0], DType::f32), {0, 1})}; };
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const int64_t columns : {1, 5, 40, 600}) {
      const Tensor x = cast(random_normal({9, 301, columns}, 1), dtype);
      Compiled fused(step, {.verify_plan = true}), eager(step, {.eager = true});
      for (const Node& node : fused.prepare({x.spec()}).compiled_graph()->graph.nodes)
        EXPECT_NE(node.op->name(), "cast");
      EXPECT_EQ(fused.call({x})[0].to_vector<float>(), eager.call({x})[0].to_vector<float>())
          << columns;
    }
}

class FusedPooling : public testing::TestWithParam<Pool2dParams> {};

TEST_P(FusedPooling, NormalisesOnTheWay) {
  const Pool2dParams params = GetParam();
  Store store{5};
  Conv2d conv{store, "a", {.in = 3, .out = 20, .kernel = 3, .padding = 1, .bias = false}};
  BatchNorm2d bn{store, "bn", {.channels = 20}};
  const Tensors parameters = {store.find("a.weight"), store.find("bn.gamma")};
  const auto step = [&](const Tensors& x) {
    TrainingScope training;
    const Tensor loss = mean(max_pool2d(relu(bn(conv(x[0]))), params));
    Tensors results = gradients(loss, parameters);
    results.push_back(loss);
    return results;
  };
  const std::string mean_and_back = "sum_run view div_scalar fill div_scalar_grad view expand ";
  const std::string finalise = "batch_norm_finalise batch_norm_update ",
                    back = "batch_norm_grad_finalise batch_norm_input_grad conv2d_weight_grad";
  expect_fused(step, {3, 15, 13, 3},
               "conv2d block_moments " + finalise + "batch_norm relu max_pool2d " + mean_and_back +
                   "max_pool2d_grad relu_grad block_gradient_sums " + back,
               "conv2d " + finalise + "max_pool2d " + mean_and_back +
                   "max_pool2d_grad block_gradient_sums " + back);
}

INSTANTIATE_TEST_SUITE_P(
    Windows, FusedPooling,
    testing::Values(Pool2dParams{.kernel = 2},
                    Pool2dParams{.kernel = 3, .stride = Size2(2), .padding = 1},
                    Pool2dParams{.kernel = {3, 2}, .stride = Size2(1, 2), .padding = {1, 0}},
                    Pool2dParams{.kernel = 2, .stride = Size2(3)}));

TEST(Fusion, TheGradientOfReluGoesIntoThatOfTheConvolutionBeforeIt) {
  Parts p;
  const Tensor filters = p.store.find("conv.weight");
  const auto step = [&](const Tensors& x) {
    const Tensor loss = mean(p.plain(relu(conv2d(x[0], filters, {.padding = 1}))));
    return Tensors{gradients(loss, Tensors{filters})[0], loss};
  };
  const std::string mean_and_back = "sum_run view div_scalar fill div_scalar_grad view expand ";
  expect_fused(
      step, {2, 7, 7, 3},
      "conv2d relu conv2d " + mean_and_back + "conv2d_input_grad relu_grad conv2d_weight_grad",
      "conv2d conv2d sum_run view div_scalar fill div_scalar_grad view expand "
      "conv2d_input_grad conv2d_weight_grad");
}

}  // namespace
}  // namespace tessera
