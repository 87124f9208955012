// Op::cost over the training steps of the zoo, compared with formulas of the shapes for products,
// and with published figures of the networks.
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "tessera/engine/structural.h"
#include "tessera/graph/capture.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/cost_model.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/pool2d.h"
#include "tessera/layers/ops/reduce_max.h"
#include "tessera/layers/ops/slice.h"
#include "tessera/layers/ops/softmax.h"
#include "tessera/layers/shared/channel_blocks.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::natural_options;
using testing_zoo::small_options;
using testing_zoo::ZooStep;

const char* const kModels[] = {"mlp",      "lenet5",  "cnn_bn",       "resnet20",   "resnet50",
                               "vgg11_bn", "alexnet", "mobilenet_v2", "densenet_bc"};

int64_t bytes_of(const Graph& graph, const std::vector<ValueId>& ids) {
  int64_t bytes = 0;
  for (const ValueId id : ids) bytes += static_cast<int64_t>(graph.values[id].spec.bytes());
  return bytes;
}

bool is_view(const Node& node) {
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (node.op->view_of(static_cast<int>(i)) < 0) return false;
  return true;
}

// Returns the multiplications of a product, calculated from its shapes; 0 for other ops.
int64_t products(const Graph& graph, const Node& node) {
  const auto shape = [&](ValueId id) { return graph.values[id].spec.shape; };
  const auto of = [&](const Shape& y, const Shape& filters) {
    return y.elements() * filters[1] * filters[2] * filters[3];
  };
  const std::string_view name = node.op->name();
  if (name == "conv2d") return of(shape(node.outputs[0]), shape(node.inputs[1]));
  if (name == "conv2d_input_grad") return of(shape(node.inputs[0]), shape(node.inputs[1]));
  if (name == "conv2d_weight_grad") return of(shape(node.inputs[1]), shape(node.outputs[0]));
  if (name != "matmul") return 0;
  // (m k) (k n) (m n) = (m k n)^2, whichever is transposed.
  const double all = static_cast<double>(shape(node.inputs[0]).elements()) *
                     static_cast<double>(shape(node.inputs[1]).elements()) *
                     static_cast<double>(shape(node.outputs[0]).elements());
  return std::llround(std::sqrt(all));
}

Cost cost_of(const Graph& graph, const Node& node) {
  return node.op->cost(graph.input_specs(node));
}

Graph recorded(const std::string& model) {
  ZooStep step(model, small_options(model), 3);
  return capture(step.function(), step.specs());
}

class Costs : public testing::TestWithParam<const char*> {};

TEST_P(Costs, OfProductsFollowFromTheirShapes) {
  const Graph graph = recorded(GetParam());
  std::map<std::string, int> seen;
  for (const Node& node : graph.nodes) {
    const int64_t count = products(graph, node);
    if (count == 0) continue;
    ++seen[std::string(node.op->name())];
    EXPECT_EQ(cost_of(graph, node).flops, 2 * count) << node.op->name() << " " << node.module_path;
  }
  EXPECT_GE(seen["matmul"], 3);  // a linear layer and its two gradients
  if (std::string(GetParam()) == "mlp") return;
  EXPECT_GT(seen["conv2d"], 1);
  EXPECT_GT(seen["conv2d_input_grad"], 0);
  EXPECT_EQ(seen["conv2d_weight_grad"], seen["conv2d"]);
}

TEST_P(Costs, MoveAtLeastTheOutputsAndNothingForViews) {
  ZooStep step(GetParam(), small_options(GetParam()), 3);
  Compiled compiled(step.function(), {});
  const Graph lowered = compiled.prepare(step.specs()).compiled_graph()->graph;
  for (const Graph& graph : {recorded(GetParam()), lowered})
    for (const Node& node : graph.nodes) {
      const Cost cost = cost_of(graph, node);
      if (is_view(node)) {
        EXPECT_EQ(cost, Cost{}) << node.op->name();
        continue;
      }
      EXPECT_EQ(cost.bytes_written, bytes_of(graph, node.outputs)) << node.op->name();
      EXPECT_LE(cost.bytes_read, bytes_of(graph, node.inputs)) << node.op->name();
      EXPECT_GE(cost.flops, 0) << node.op->name();
    }
}

// Fusion keeps the flops, but the intermediate values are not moved. A prologue is computed once
// for each op that reads through it.
TEST_P(Costs, OfAFusedOpAreThoseOfItsParts) {
  const auto sum = [&](std::vector<std::string> disabled) {
    ZooStep step(GetParam(), small_options(GetParam()), 3);
    Compiled compiled(step.function(), {.disabled_passes = std::move(disabled)});
    const Graph& graph = compiled.prepare(step.specs()).compiled_graph()->graph;
    Cost all;
    for (const Node& node : graph.nodes) {
      const Cost cost = cost_of(graph, node);
      all.flops += cost.flops;
      all.bytes_read += cost.bytes_read;
      all.bytes_written += cost.bytes_written;
    }
    return all;
  };
  const std::string pointwise_pass = "fuse_pointwise", epilogues = "fuse_epilogues",
                    prologues = "fuse_prologues", readers = "fuse_consumers",
                    late = "fuse_late_prologues";
  const Cost apart = sum({pointwise_pass, epilogues, prologues, readers, late});
  const Cost pointwise = sum({epilogues, prologues, readers, late});
  const Cost fused = sum({prologues, readers, late}), sums = sum({prologues, late});
  const Cost all = sum({});
  EXPECT_EQ(pointwise.flops, apart.flops);
  EXPECT_EQ(fused.flops, apart.flops);
  EXPECT_LT(pointwise.bytes_written, apart.bytes_written);
  EXPECT_LT(fused.bytes_written, pointwise.bytes_written);
  EXPECT_LT(fused.bytes_read, apart.bytes_read);
  EXPECT_EQ(sums.flops, fused.flops);
  EXPECT_LE(sums.bytes_read, fused.bytes_read);
  EXPECT_GE(all.flops, sums.flops);
  EXPECT_LE(all.bytes_written, sums.bytes_written);
}

INSTANTIATE_TEST_SUITE_P(Zoo, Costs, testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param); });

// Returns the cost of the only op with this name, in a function of tensors of these shapes.
Cost cost_in(std::string_view op, const std::vector<Shape>& shapes, const StepFunction& fn) {
  Specs specs;
  for (const Shape& shape : shapes) specs.push_back({DType::f32, shape, {}});
  const Graph graph = capture(fn, specs);
  std::vector<Cost> found;
  for (const Node& node : graph.nodes)
    if (node.op->name() == op) found.push_back(cost_of(graph, node));
  EXPECT_EQ(found.size(), 1u) << op;
  return found.empty() ? Cost{} : found[0];
}

TEST(RooflineCosts, WhatAStepReadsTwiceIsMovedOnce) {
  const TensorSpec x{DType::f32, {1 << 20}, {}};
  const auto nanoseconds = [](const Graph& graph) {
    return RooflineCosts().nanoseconds(graph, graph.nodes[0]) - RooflineCosts::kNsPerStep;
  };
  const int64_t square =
      nanoseconds(capture([](const Tensors& in) { return Tensors{in[0] * in[0]}; }, {x}));
  const int64_t product =
      nanoseconds(capture([](const Tensors& in) { return Tensors{in[0] * in[1]}; }, {x, x}));
  const auto bytes = static_cast<double>(x.bytes());
  EXPECT_EQ(square, std::llround(2 * bytes / RooflineCosts::kBytesPerNs));
  EXPECT_EQ(product, std::llround(3 * bytes / RooflineCosts::kBytesPerNs));
}

TEST(Cost, OfOpsThatAreNoProductsIsCountedByElement) {
  const std::vector<Shape> image{{2, 4, 4, 3}}, rows{{5, 7}};  // 96 and 35 elements
  const auto same = [](const Cost& cost, int64_t flops, int64_t read, int64_t written) {
    EXPECT_EQ(cost.flops, flops);
    EXPECT_EQ(cost.bytes_read, 4 * read);
    EXPECT_EQ(cost.bytes_written, 4 * written);
  };
  using T = const Tensors&;
  same(cost_in("relu", image, [](T x) { return Tensors{relu(x[0])}; }), 96, 96, 96);
  same(cost_in("max_pool2d", image, [](T x) { return Tensors{max_pool2d(x[0], {.kernel = 2})}; }),
       4 * 24, 96, 24);
  same(cost_in("average_pool2d", image,
               [](T x) { return Tensors{average_pool2d(x[0], {.kernel = 2})}; }),
       4 * 24, 96, 24);
  same(
      cost_in("global_average_pool", image, [](T x) { return Tensors{global_average_pool(x[0])}; }),
      96, 96, 6);
  same(cost_in("softmax", rows, [](T x) { return Tensors{softmax(x[0])}; }), 5 * 35, 35, 35);
  same(cost_in("sum_run", rows, [](T x) { return Tensors{sum(x[0])}; }), 35, 35, 1);
  same(cost_in("max", rows, [](T x) { return Tensors{max(x[0], 1)}; }), 35, 35, 5 + 2 * 5);
  same(cost_in("slice", rows, [](T x) { return Tensors{slice(x[0], 1, 2, 4)}; }), 0, 10, 10);
  same(cost_in("slice", rows, [](T x) { return Tensors{pad(x[0], 1, 2, 4)}; }), 0, 35, 65);
  same(cost_in("block_moments", image,
               [](T x) {
                 const ChannelBlocks blocks = channel_blocks(x[0].spec());
                 return Tensors{block_moments(x[0], blocks)};
               }),
       5 * 96, 96, 6);
}

TEST(Cost, OfAnOptimizerIsThatOfAllItUpdates) {
  for (const auto& [params, flops] : {std::pair{SgdParams{}, 4},
                                      {SgdParams{.momentum = 0.9}, 6},
                                      {SgdParams{.momentum = 0.9, .nesterov = true}, 8}}) {
    Store store(1);
    const Tensor w = store.parameter("w", {10, 3}, Initializer::zeros());
    Sgd sgd(store, {w}, params);
    const Cost cost = cost_in("sgd_update", {{10, 3}, {}}, [&](const Tensors& x) {
      sgd.step(std::span(&x[0], 1), x[1]);
      return Tensors{};
    });
    const int64_t states = params.momentum != 0 ? 2 : 1;
    EXPECT_EQ(cost.flops, flops * 30);
    EXPECT_EQ(cost.bytes_read, 4 * ((states + 1) * 30 + 1));
    EXPECT_EQ(cost.bytes_written, 4 * states * 30);
  }
}

// torchvision publishes these "GFLOPS" for its weights; a multiplication with an addition is one.
TEST(Cost, OfANetworksProductsIsWhatIsPublished) {
  const std::pair<const char*, double> published[] = {
      {"resnet18", 1.81},           {"resnet34", 3.66},           {"resnet50", 4.09},
      {"resnet152", 11.51},         {"vgg11_bn", 7.61},           {"alexnet", 0.71},
      {"densenet121", 2.83},        {"mobilenet_v2", 0.30},       {"googlenet", 1.50},
      {"mobilenet_v3_small", 0.06}, {"mobilenet_v3_large", 0.22}, {"shufflenet_v2_x0_5", 0.04},
      {"shufflenet_v2_x1_0", 0.14}, {"shufflenet_v2_x1_5", 0.30}, {"shufflenet_v2_x2_0", 0.58},
      {"efficientnet_b0", 0.39},    {"regnet_y_400mf", 0.40},     {"regnet_y_800mf", 0.83},
      {"regnet_y_1_6gf", 1.61},     {"regnet_y_3_2gf", 3.18},     {"convnext_tiny", 4.46},
  };
  for (const auto& [model, giga] : published) {
    ZooStep step(model, natural_options(model), 1);
    const Graph graph = capture(step.function(), step.specs());
    int64_t flops = 0;
    for (const Node& node : graph.nodes)
      if (node.phase == Phase::forward && products(graph, node) > 0)
        flops += cost_of(graph, node).flops;
    EXPECT_NEAR(static_cast<double>(flops) / 2e9, giga, 0.0051) << model;
  }
}

}  // namespace
}  // namespace tessera
