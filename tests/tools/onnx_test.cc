// Exported ONNX files, computed by the definitions of their operators, give our logits.
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/models/config/config_data.h"
#include "tessera/models/config/network.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/golden/formula.h"
#include "tessera/tests/tools/onnx_run.h"
#include "tessera/tools/onnx/export_onnx.h"

namespace tessera {
namespace {

using testing_onnx::Array;

std::unique_ptr<TrainedNetwork> network_of(const std::string& yaml, ImageShape image) {
  auto trained = std::make_unique<TrainedNetwork>();
  trained->config = with_classes(parse_config(yaml, "a.yaml"));
  trained->inference = "{}";
  trained->image = image;
  trained->network = make_network(trained->config, image, trained->store);
  // Initial statistics and shifts, which are zeros and ones, would hide errors.
  for (const Tensors* list : {&trained->store.parameters(), &trained->store.buffers()})
    for (Tensor tensor : *list) {
      if (tensor.shape().rank() > 1) continue;
      const std::string& name = tensor.impl()->storage->name;
      const bool positive = name.ends_with("var") || name.ends_with("gamma");
      tensor.assign(std::span<const float>(
          golden::uniform(name, tensor.shape().elements(), 0.5, positive ? 1 : 0)));
    }
  return trained;
}

onnx::ModelProto parsed(const std::string& text) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(text));
  return model;
}

// Returns the largest difference from our logits, relative to the largest logit.
double difference(const TrainedNetwork& trained, int64_t batch, int64_t images) {
  const ImageShape& s = trained.image;
  const std::vector<float> pixels =
      golden::uniform("images", images * s.height * s.width * s.channels, 1.5);
  const TrainingScope evaluation(false);
  const NoGradScope no_grad;
  const Tensor x = from_vector({images, s.height, s.width, s.channels}, pixels);
  const std::vector<float> ours = (*trained.network)(x).to_vector<float>();
  Array nchw{{images, s.channels, s.height, s.width}, {}};
  for (int64_t n = 0; n < images; ++n)
    for (int64_t c = 0; c < s.channels; ++c)
      for (int64_t p = 0; p < s.height * s.width; ++p)
        nchw.values.push_back(
            pixels[static_cast<size_t>((n * s.height * s.width + p) * s.channels + c)]);
  const Array theirs = testing_onnx::run(parsed(onnx_text(trained, batch)), nchw);
  EXPECT_EQ(theirs.shape, (std::vector<int64_t>{images, trained.config.model.classes}));
  double largest = 0, apart = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(ours[i])));
    apart = std::max(apart, std::abs(ours[i] - theirs.values[i]));
  }
  return apart / largest;
}

TEST(Onnx, NetworksOfTheZooComputeTheSameLogits) {
  const std::pair<const char*, ImageShape> cases[] = {
      {"model: {name: mlp}", {8, 8, 1}},
      {"model: {name: lenet5}", {20, 28, 1}},
      {"model: {name: cnn_bn, widths: [4, 6, 8]}", {28, 28, 1}},
      {"model: {name: resnet20}", {16, 16, 3}},  // zeros for new channels
      {"model: {name: resnet18, classes: 11}", {32, 32, 3}},
      {"model: {name: densenet_bc, depth: 16, growth: 4}", {16, 16, 3}},
      {"model: {name: mobilenet_v2}", {32, 32, 3}},
      {"model: {name: mobilenet_v3_small}", {32, 32, 3}},
      {"model: {name: seresnet18}", {32, 32, 3}},
  };
  for (const auto& [yaml, image] : cases) {
    SCOPED_TRACE(yaml);
    EXPECT_LE(difference(*network_of(yaml, image), 0, 2), 1e-5);
  }
}

std::map<std::string, int> operators_of(const TrainedNetwork& trained) {
  std::map<std::string, int> counts;
  const onnx::ModelProto model = parsed(onnx_text(trained, 0));
  for (const onnx::NodeProto& node : model.graph().node()) ++counts[node.op_type()];
  return counts;
}

// Runtimes compute these fast; a chain of Mul, Add, Max and Min took 1.5 times as long.
TEST(Onnx, NormsAndBiasesAreInTheLayersBeforeThem) {
  using Counts = std::map<std::string, int>;
  EXPECT_EQ(operators_of(*network_of("model: {name: mobilenet_v2}", {32, 32, 3})),
            (Counts{{"Conv", 52},
                    {"Clip", 35},
                    {"Add", 10},  // residuals
                    {"GlobalAveragePool", 1},
                    {"Flatten", 1},
                    {"Gemm", 1},
                    {"Identity", 1}}));
  EXPECT_EQ(operators_of(*network_of("model: {name: resnet18}", {32, 32, 3})),
            (Counts{{"Conv", 20},
                    {"Relu", 17},
                    {"Add", 8},
                    {"MaxPool", 1},
                    {"GlobalAveragePool", 1},
                    {"Flatten", 1},
                    {"Gemm", 1},
                    {"Identity", 1}}));
  // Squeeze and excitation: means stay images of one pixel, so nothing is transposed.
  Counts gated = operators_of(*network_of("model: {name: efficientnet_b0}", {32, 32, 3}));
  EXPECT_EQ(gated, (Counts{{"Conv", 81},
                           {"Sigmoid", 65},
                           {"Mul", 65},
                           {"Add", 9},
                           {"GlobalAveragePool", 17},
                           {"Flatten", 1},
                           {"Gemm", 1},
                           {"Identity", 1}}));
  // Norms before convolutions stay; a norm between two convolutions is folded.
  Counts dense =
      operators_of(*network_of("model: {name: densenet_bc, depth: 16, growth: 4}", {16, 16, 3}));
  EXPECT_EQ(dense["BatchNormalization"], dense["Relu"] - 6);
  EXPECT_EQ(dense["Conv"], 1 + 2 * 6 + 2);
  EXPECT_EQ(dense.count("Mul") + dense.count("Add"), 0u);
}

// Only a value without other users can be folded into the layer that produces it.
TEST(Onnx, ANormWhoseInputIsReadTwiceStays) {
  const auto trained = network_of(R"(
model:
  classes: 10
  layers:
    - {conv: {filters: 4, kernel: 3, padding: 1}}
    - {residual: [batch_norm, relu6]}
    - batch_norm
    - hard_swish
    - global_average_pool
    - {linear: {units: 10}}
    - {scale: {factor: 0.5}}
)",
                                  {8, 8, 3});
  auto counts = operators_of(*trained);
  EXPECT_EQ(counts["BatchNormalization"], 2);
  EXPECT_EQ(counts["HardSwish"], 1);
  EXPECT_EQ(counts["Mul"], 0);
  EXPECT_LE(difference(*trained, 0, 2), 1e-5);
}

TEST(Onnx, LayersOfOnesOwnComputeTheSameLogits) {
  const auto trained = network_of(R"(
model:
  classes: 10
  layers:
    - {conv: {filters: 6, kernel: 3, padding: 1, groups: 3}}
    - layer_norm
    - {group_norm: {groups: 2}}
    - gelu
    - {average_pool: {size: 3, stride: 2, padding: 1}}
    - {residual: [{conv: {filters: 6, kernel: 3, padding: 1}}, silu]}
    - {max_pool: {size: 2, stride: 2, padding: 1}}
    - {max_pool: {size: 3, stride: 2, ceil_mode: true}}
    - {scale: {factor: 0.5}}
    - {save: {name: early}}
    - concat: [{conv: {filters: 4, kernel: 1}}, {sequence: [softmax, tanh]}, {load: {name: early}}]
    - flatten
    - {linear: {units: 12}}
    - sigmoid
    - {linear: {units: 10}}
)",
                                  {12, 16, 3});
  EXPECT_LE(difference(*trained, 0, 3), 1e-5);
  EXPECT_LE(difference(*trained, 3, 3), 1e-5);
}

TEST(Onnx, APoolMayBeTheLastLayer) {
  const auto trained = network_of(
      "model: {classes: 10, layers: [{conv: {filters: 10, kernel: 1}}, global_average_pool]}",
      {5, 4, 3});
  EXPECT_LE(difference(*trained, 0, 3), 1e-5);
}

TEST(Onnx, TheFileSaysWhatItTakes) {
  const auto trained = network_of("model: {name: lenet5}", {28, 28, 1});
  const onnx::ModelProto any = parsed(onnx_text(*trained, 0)),
                         five = parsed(onnx_text(*trained, 5));
  const auto first = [](const onnx::ValueInfoProto& value) {
    return value.type().tensor_type().shape().dim(0);
  };
  EXPECT_EQ(first(any.graph().input(0)).dim_param(), "batch");
  EXPECT_EQ(first(any.graph().output(0)).dim_param(), "batch");
  EXPECT_EQ(first(five.graph().input(0)).dim_value(), 5);
  EXPECT_EQ(any.opset_import(0).version(), 17);
  EXPECT_EQ(any.metadata_props(0).key(), "inference");
}

TEST(Onnx, AnOpThatCannotBeWrittenIsNamed) {
  const auto trained = network_of(R"(
model:
  classes: 10
  layers: [{average_pool: {size: 3, stride: 2, ceil_mode: true}}, flatten, {linear: {units: 10}}]
)",
                                  {8, 8, 3});
  try {
    onnx_text(*trained, 0);
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("at average_pool0 has ceil_mode"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace tessera
