#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/layers/ops/loss.h"
#include "tessera/models/config/config.h"
#include "tessera/models/config/network.h"
#include "tessera/models/training/session.h"
#include "tessera/tests/models/zoo/element_count.h"

namespace tessera {
namespace {

constexpr char kLeNet[] = R"(
model:
  classes: 10
  layers:
    - {conv: {filters: 6, kernel: 5, padding: 2}}
    - relu
    - {max_pool: {size: 2}}
    - {conv: {filters: 16, kernel: 5}}
    - relu
    - {max_pool: {size: 2}}
    - flatten
    - {linear: {units: 120}}
    - relu
    - {linear: {units: 84}}
    - relu
    - {linear: {units: 10}}
)";

constexpr char kMoreLayers[] = R"(
data: {image_size: 16}
model:
  classes: 10
  layers:
    - {conv: {filters: 8, kernel: 7, padding: 3}}
    - hard_swish
    - {max_pool: {size: 3, stride: 2, ceil_mode: true}}
    - {local_response_norm: {size: 3, alpha: 0.1, beta: 0.5, k: 2}}
    - {squeeze_excitation: {squeeze: 2, activation: silu, gate: hard_sigmoid}}
    - prelu
    - {residual: [{conv: {filters: 8, kernel: 7, padding: 3, groups: 8}}, mish, layer_scale, {stochastic_depth: {probability: 0.2}}]}
    - {channel_shuffle: {groups: 4}}
    - {adaptive_max_pool: {size: 5}}
    - {leaky_relu: {slope: 0.1}}
    - gelu_tanh
    - {adaptive_average_pool: {size: 2}}
    - {elu: {alpha: 0.5}}
    - flatten
    - hard_sigmoid
    - {linear: {units: 10}}
)";

constexpr char kEveryLayer[] = R"(
data: {image_size: 16}
model:
  classes: 10
  layers:
    - {conv: {filters: 8, kernel: 3, padding: 2, dilation: 2, bias: false, identity: true}}
    - {batch_norm: {eps: 1e-4, momentum: 0.2, scale: false}}
    - relu6
    - {conv: {filters: 8, kernel: 3, padding: 1, groups: 4}}
    - {group_norm: {groups: 2}}
    - silu
    - {max_pool: {size: 3, stride: 2, padding: 1}}
    - {residual: [{conv: {filters: 8, kernel: 1}}, gelu, layer_norm]}
    - residual:
        layers: [{conv: {filters: 12, kernel: 3, stride: 2, padding: 1}}, tanh]
        shortcut: [{conv: {filters: 12, kernel: 1, stride: 2}}]
    - {average_pool: {size: 2}}
    - sigmoid
    - global_average_pool
    - {dropout: {probability: 0.1}}
    - {linear: {units: 10, bias: false}}
    - {scale: {factor: 0.125}}
)";

constexpr char kBranches[] = R"(
data: {image_size: 16}
model:
  classes: 10
  layers:
    - concat:
        - {conv: {filters: 4, kernel: 1}}
        - sequence: [{conv: {filters: 2, kernel: 1}}, relu, {conv: {filters: 6, kernel: 3, padding: 1}}]
        - sequence: []
    - batch_norm
    - {save: {name: early}}
    - relu
    - {conv: {filters: 13, kernel: 3, padding: 1}}
    - {residual: {layers: [softmax], shortcut: [{load: {name: early}}]}}
    - {concat: [{max_pool: {size: 3, stride: 1, padding: 1}}, {load: {name: early}}]}
    - global_average_pool
    - {linear: {units: 10}}
)";

TEST(Layered, TheSameNetworkHasTheSameNumberOfParameters) {
  const Config config = parse_config(kLeNet, "a.yaml");
  Store store;
  make_layered(config.model.layers, {28, 28, 1}, 10, store);
  EXPECT_EQ(element_count(store.parameters()), 61'706);  // LeNet-5
  EXPECT_EQ(store.find("conv3.weight").shape(), Shape({16, 5, 5, 6}));
  EXPECT_EQ(store.find("linear7.weight").shape(), Shape({120, 400}));
}

void expect_forward_and_backward(const char* text, Store& store) {
  const Config config = parse_config(text, "a.yaml");
  const auto model = make_layered(config.model.layers, {16, 16, 3}, 10, store);
  const Tensor x = random_normal({4, 16, 16, 3}, 1);
  TrainingScope training;
  RandomScope random(1, zeros({2}, DType::i64));
  const Tensor logits = (*model)(x);
  EXPECT_EQ(logits.shape(), Shape({4, 10}));
  const Tensor loss = cross_entropy(logits, from_vector<int32_t>({4}, {0, 1, 2, 0}));
  for (const Tensor& grad : gradients(loss, store.parameters())) {
    double norm = 0;
    for (float value : grad.to_vector<float>()) norm += std::abs(value);
    EXPECT_TRUE(std::isfinite(norm) && norm > 0);
  }
}

TEST(Layered, EveryLayerRunsForwardAndBackward) {
  Store more(7);
  expect_forward_and_backward(kMoreLayers, more);
  Store branches(7);
  expect_forward_and_backward(kBranches, branches);
  EXPECT_EQ(branches.find("concat0.conv0.weight").shape(), Shape({4, 1, 1, 3}));
  EXPECT_EQ(branches.find("concat0.sequence1.conv2.weight").shape(), Shape({6, 3, 3, 2}));
  EXPECT_EQ(branches.find("linear8.weight").shape(), Shape({10, 26}));
  EXPECT_EQ(more.find("squeeze_excitation4.fc1.weight").shape(), Shape({2, 1, 1, 8}));
  EXPECT_EQ(more.find("prelu5.weight").shape(), Shape({8}));
  EXPECT_EQ(more.find("residual6.layer_scale2.gamma").to_vector<float>(),
            std::vector<float>(8, 1e-6f));
  EXPECT_EQ(more.find("linear15.weight").shape(), Shape({10, 32}));
  Store store(7);
  expect_forward_and_backward(kEveryLayer, store);
  EXPECT_TRUE(store.find("residual8.shortcut.conv0.weight").defined());
  EXPECT_TRUE(store.find("residual7.layer_norm2.gamma").defined());
}

// Returns the output for an image of 2 x 2 pixels.
std::vector<float> outputs(const std::string& layers, int classes) {
  const std::string text = fmt::format(
      "data: {{name: image_folder, root: none, image_size: 2}}\nmodel: {{classes: {}, layers: "
      "[{}]}}\n",
      classes, layers);
  Store store;
  const Config config = parse_config(text, "a.yaml");
  const auto model = make_layered(config.model.layers, {2, 2, 3}, classes, store);
  std::vector<float> results;
  for (int round = 0; round < 2; ++round)  // a saved tensor is that of its own forward pass
    results = (*model)(full({1, 2, 2, 3}, 1.0 + round)).to_vector<float>();
  return results;
}

TEST(Layered, ConcatSaveAndLoadComputeWhatTheySay) {
  EXPECT_EQ(outputs("{save: {name: a}}, {scale: {factor: 3}}, {concat: [{sequence: []}, {load: "
                    "{name: a}}, {scale: {factor: -1}}]}, global_average_pool",
                    9),
            (std::vector<float>{6, 6, 6, 2, 2, 2, -6, -6, -6}));
  EXPECT_EQ(outputs("{save: {name: a}}, {residual: {layers: [{scale: {factor: 4}}, {save: {name: "
                    "b}}], shortcut: [{load: {name: a}}]}}, {residual: {layers: [{load: {name: a}}"
                    "], shortcut: [{load: {name: b}}]}}, global_average_pool",
                    3),
            (std::vector<float>{10, 10, 10}));  // 2 + 8
  for (const float part : outputs("softmax, global_average_pool", 3))
    EXPECT_FLOAT_EQ(part, 1 / 3.f);
}

TEST(Layered, WrongBranchesAndSkipsAreRefused) {
  const auto refusal = [](const char* layers) {
    try {
      outputs(layers, 3);
      return std::string();
    } catch (const ConfigErrors& error) {
      return std::string(error.what());
    }
  };
  for (const auto& [layers, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {"{concat: []}", "needs 1 to 32 layers"},
           {"{concat: [relu, {max_pool: {size: 2}}]}",
            "images of one size, not [n x 2 x 2 x 3] and [n x 1 x 1 x 3]"},
           {"{load: {name: a}}, {save: {name: a}}", "no earlier layer saves 'a'"},
           {"{save: {name: a}}, global_average_pool", "no later layer loads 'a'"},
           {"{save: {name: a}}, {save: {name: a}}, {load: {name: a}}", "'a' is saved twice"},
           {"save", "name"}})
    EXPECT_NE(refusal(layers).find(part), std::string::npos) << layers << "\n" << refusal(layers);
}

TEST(Layered, WhiteningComesFirst) {
  const auto config = [](const std::string& layers) {
    return parse_config("model: {classes: 24, layers: [" + layers + ", global_average_pool]}", "a");
  };
  Store store;
  make_layered(config("{whiten: {kernel: 2}}").model.layers, {32, 32, 3}, 24, store);
  EXPECT_EQ(store.find("whiten0.whitening").shape(), Shape({24, 2, 2, 3}));
  for (const char* layers : {"relu, {whiten: {kernel: 2}}", "{residual: [{whiten: {kernel: 2}}]}"})
    EXPECT_THROW(config(layers), ConfigErrors) << layers;
}

TEST(Layered, IsPrintedAsItIsRead) {
  for (const char* text : {kLeNet, kEveryLayer, kMoreLayers, kBranches}) {
    const std::string printed = print_config(parse_config(text, "a.yaml", {"data.image_size=28"}));
    EXPECT_EQ(print_config(parse_config(printed, "printed")), printed);
    EXPECT_EQ(printed.find("name: resnet"), std::string::npos);
  }
  const std::string printed = print_config(parse_config(kEveryLayer, "a.yaml"));
  EXPECT_NE(printed.find("\n    - relu6\n"), std::string::npos) << printed;
  EXPECT_NE(
      printed.find("\n    - {residual: [{conv: {filters: 8, kernel: 1}}, gelu, layer_norm]}\n"),
      std::string::npos)
      << printed;
}

TEST(Layered, ErrorsTellTheLayerAndTheShapeSoFar) {
  const std::string text =
      "model:\n  classes: 10\n  layers:\n    - {max_pool: {size: 2}}\n"
      "    - {conv: {filters: 8, kernel: 17}}\n";
  try {
    parse_config(text, "a.yaml");
    ADD_FAILURE();
  } catch (const ConfigErrors& error) {
    EXPECT_STREQ(error.what(),
                 "a.yaml:5:8: error: model.layers: conv: its window has 17 pixels, but its padded "
                 "input only 16; the shape so far is [n x 16 x 16 x 3]\n"
                 "      - {conv: {filters: 8, kernel: 17}}\n"
                 "         ^~~~");
  }
}

void expect_session_trains(const char* text) {
  const Config config = parse_config(text, "a.yaml", {"threads=2"});
  const std::vector<float> half(3, 0.5f);
  Session session(config, Device{}, {16, 16, 3}, {half, half});
  CompiledStep& step = session.train_step(4);
  session.bind();
  const std::vector<uint8_t> images(4 * 16 * 16 * 3, 100);
  const std::vector<int32_t> labels = {0, 1, 2, 0};
  for (int64_t i = 0; i < 2; ++i) {
    Tensor(step.input(0)).assign(std::span<const uint8_t>(images));
    Tensor(step.input(1)).assign(std::span<const int32_t>(labels));
    Tensor(step.input(3)).assign(std::span<const int64_t>(std::vector<int64_t>{i, 0}));
    Tensor(step.input(2)).assign_scalar(0.1);
    step.run();
    EXPECT_TRUE(std::isfinite(step.output(0).item<double>()));
  }
}

TEST(Layered, SessionsTrainIt) {
  expect_session_trains(kEveryLayer);
  expect_session_trains(kMoreLayers);
  expect_session_trains(kBranches);
}

}  // namespace
}  // namespace tessera
