#include "tessera/models/zoo/zoo.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/graph/capture.h"
#include "tessera/layers/ops/loss.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/models/zoo/element_count.h"

namespace tessera {
namespace {

struct Case {
  const char* name;
  ModelOptions options;
  int64_t parameters;
};

const ModelOptions kImageNet{.height = 224, .width = 224, .channels = 3, .classes = 1000};
const ModelOptions kMnist{.height = 28, .width = 28, .channels = 1};

// Parameter counts that the authors of the networks and of well-known implementations report.
const Case kCases[] = {
    {"lenet5", kMnist, 61'706},
    {"resnet20", {}, 269'722},
    {"resnet32", {}, 464'154},
    {"resnet44", {}, 658'586},
    {"resnet56", {}, 853'018},
    {"resnet110", {}, 1'727'962},
    {"resnet18", kImageNet, 11'689'512},
    {"resnet34", kImageNet, 21'797'672},
    {"resnet50", kImageNet, 25'557'032},
    {"resnet101", kImageNet, 44'549'160},
    {"resnet152", kImageNet, 60'192'808},
    {"resnet18_cifar", {}, 11'173'962},
    {"wide_resnet", {}, 36'479'194},
    {"alexnet", kImageNet, 61'100'840},
    {"vgg11_bn", kImageNet, 132'868'840},
    {"vgg13_bn", kImageNet, 133'053'736},
    {"vgg16_bn", kImageNet, 138'365'992},
    {"vgg19_bn", kImageNet, 143'678'248},
    {"densenet121", kImageNet, 7'978'856},
    {"densenet_bc", {}, 769'162},
    {"mobilenet_v2", kImageNet, 3'504'872},
    {"googlenet", kImageNet, 6'624'904},
    {"seresnet18", kImageNet, 11'779'624},
    {"seresnet50", kImageNet, 28'088'024},
    {"shufflenet_v2_x0_5", kImageNet, 1'366'792},
    {"shufflenet_v2_x1_0", kImageNet, 2'278'604},
    {"shufflenet_v2_x1_5", kImageNet, 3'503'624},
    {"shufflenet_v2_x2_0", kImageNet, 7'393'996},
    {"mobilenet_v3_small", kImageNet, 2'542'856},
    {"mobilenet_v3_large", kImageNet, 5'483'032},
    {"efficientnet_b0", kImageNet, 5'288'548},
    {"efficientnet_b1", kImageNet, 7'794'184},
    {"efficientnet_b2", kImageNet, 9'109'994},
    {"efficientnet_b3", kImageNet, 12'233'232},
    {"efficientnet_b4", kImageNet, 19'341'616},
    {"regnet_y_400mf", kImageNet, 4'344'144},
    {"regnet_y_800mf", kImageNet, 6'432'512},
    {"regnet_y_1_6gf", kImageNet, 11'202'430},
    {"regnet_y_3_2gf", kImageNet, 19'436'338},
    {"convnext_atto", kImageNet, 3'695'520},
    {"convnext_femto", kImageNet, 5'217'784},
    {"convnext_pico", kImageNet, 9'045'672},
    {"convnext_nano", kImageNet, 15'593'560},
    {"convnext_tiny", kImageNet, 28'589'128},
    {"mlp", kMnist, 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10},
    {"cnn_bn", kMnist,
     9 * (1 * 32 + 32 * 32 + 32 * 64 + 64 * 64) + 2 * (32 + 32 + 64 + 64) + 7 * 7 * 64 * 10 + 10},
};

TEST(Zoo, NetworksHaveTheirPublishedNumberOfParameters) {
  std::vector<std::string> seen;
  for (const Case& c : kCases) {
    Store store;
    make_model(c.name, c.options, store);
    EXPECT_EQ(element_count(store.parameters()), c.parameters) << c.name;
    seen.push_back(c.name);
  }
  for (const std::string& name : model_names()) {
    EXPECT_EQ(std::count(seen.begin(), seen.end(), name), 1) << name << " has no case";
  }
}

TEST(Zoo, OptionsChangeTheNumberOfParametersAsPublished) {
  const Case cases[] = {{"wide_resnet", {.depth = 16, .widen = 4}, 2'748'890},
                        {"wide_resnet", {.depth = 40, .widen = 2}, 2'243'546},
                        {"wide_resnet", {.depth = 16, .widen = 8}, 10'961'370},
                        {"densenet_bc", {.depth = 40, .growth = 12}, 176'122}};
  for (const Case& c : cases) {
    Store store;
    make_model(c.name, c.options, store);
    EXPECT_EQ(element_count(store.parameters()), c.parameters) << c.name;
  }
}

// After a training step every parameter has a gradient that is finite and not all zero.
TEST(Zoo, EveryParameterOfTheSmallNetworksGetsAGradient) {
  const std::vector<std::pair<std::string, ModelOptions>> cases{
      {"mlp", kMnist},
      {"lenet5", {.height = 12, .width = 15, .channels = 2}},
      {"cnn_bn", {.height = 9, .width = 8, .channels = 3, .classes = 4, .dropout = 0.5}},
      {"resnet20", {.height = 13, .width = 9, .channels = 3}},
      {"resnet18_cifar", {.height = 8, .width = 8}},
      {"resnet50", {.height = 33, .width = 33, .classes = 5}},
      {"wide_resnet", {.height = 12, .width = 9, .dropout = 0.3, .depth = 10, .widen = 2}},
      {"alexnet", {.height = 63, .width = 70}},
      {"vgg11_bn", {.height = 32, .width = 33, .dropout = 0}},
      {"densenet121", {.height = 33, .width = 40}},
      {"densenet_bc", {.height = 12, .width = 9, .depth = 22, .growth = 6}},
      {"mobilenet_v2", {.height = 33, .width = 40}},
      {"googlenet", {.height = 33, .width = 40, .dropout = 0}},
      {"seresnet18", {.height = 33, .width = 40, .stochastic_depth = 0.2}},
      {"shufflenet_v2_x0_5", {.height = 65, .width = 70}},
      {"mobilenet_v3_small", {.height = 65, .width = 70}},
      {"mobilenet_v3_large", {.height = 65, .width = 70}},
      {"efficientnet_b0", {.height = 65, .width = 70}},
      {"regnet_y_400mf", {.height = 65, .width = 70}},
      {"convnext_atto", {.height = 64, .width = 70, .stochastic_depth = 0.1}}};
  for (const auto& [name, options] : cases) {
    Store store(7);
    const auto model = make_model(name, options, store);
    const Tensor x = random_normal({4, options.height, options.width, options.channels}, 1);
    const Tensor labels = from_vector<int32_t>({4}, {0, 1, 2, 3});
    TrainingScope training;
    RandomScope random(1, zeros({2}, DType::i64));
    const Tensor logits = (*model)(x);
    EXPECT_EQ(logits.shape(), Shape({4, options.classes})) << name;
    const Tensors grads = gradients(cross_entropy(logits, labels), store.parameters());
    for (size_t i = 0; i < grads.size(); ++i) {
      double norm = 0;
      for (float value : grads[i].to_vector<float>()) norm += std::abs(value);
      EXPECT_TRUE(std::isfinite(norm) && norm > 0)
          << name << " " << store.parameters()[i].impl()->storage->name << " " << norm;
    }
  }
}

TEST(Zoo, NamesAreThoseOfTheLiterature) {
  Store cifar;
  make_model("resnet20", {}, cifar);
  for (const char* name : {"conv1.weight", "bn1.gamma", "bn1.running_var", "layer1.0.conv1.weight",
                           "layer3.2.bn2.beta", "fc.weight", "fc.bias"}) {
    EXPECT_TRUE(cifar.find(name).defined()) << name;
  }
  EXPECT_FALSE(cifar.find("layer2.0.downsample.0.weight").defined());
  EXPECT_FALSE(cifar.find("conv1.bias").defined());

  Store imagenet;
  make_model("resnet50", kImageNet, imagenet);
  EXPECT_EQ(imagenet.find("conv1.weight").shape(), Shape({64, 7, 7, 3}));
  EXPECT_EQ(imagenet.find("layer1.0.downsample.0.weight").shape(), Shape({256, 1, 1, 64}));
  EXPECT_EQ(imagenet.find("layer4.0.downsample.1.running_mean").shape(), Shape({2048}));
  EXPECT_EQ(imagenet.find("layer4.2.conv3.weight").shape(), Shape({2048, 1, 1, 512}));
  EXPECT_EQ(imagenet.find("fc.weight").shape(), Shape({1000, 2048}));

  Store lenet;
  make_model("lenet5", kMnist, lenet);
  EXPECT_EQ(lenet.find("fc1.weight").shape(), Shape({120, 400}));
}

TEST(Zoo, WidthsAreOptionsOfTheMlpAndTheCnn) {
  Store mlp;
  make_model("mlp", {.height = 2, .width = 2, .channels = 1, .classes = 3, .widths = {5}}, mlp);
  EXPECT_EQ(element_count(mlp.parameters()), 4 * 5 + 5 + 5 * 3 + 3);
  Store cnn;
  make_model("cnn_bn", {.height = 8, .width = 8, .channels = 1, .widths = {2, 3, 4}}, cnn);
  EXPECT_EQ(cnn.find("conv3.weight").shape(), Shape({4, 3, 3, 3}));
  EXPECT_EQ(cnn.find("fc.weight").shape(), Shape({10, 4 * 4 * 4}));
}

std::string message_of(const char* name, const ModelOptions& options) {
  Store store;
  try {
    make_model(name, options, store);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

TEST(Zoo, ResidualsOfAResNetAreLeftOutAtRandomInTraining) {
  const auto logits = [](std::optional<double> stochastic_depth, bool training) {
    Store store(7);
    const auto model = make_model(
        "resnet20", {.height = 8, .width = 8, .stochastic_depth = stochastic_depth}, store);
    TrainingScope scope(training);
    RandomScope random(1, zeros({2}, DType::i64));
    return (*model)(random_normal({4, 8, 8, 3}, 1)).to_vector<float>();
  };
  EXPECT_EQ(logits(0.5, false), logits({}, false));
  EXPECT_EQ(logits(0, true), logits({}, true));
  EXPECT_NE(logits(0.5, true), logits({}, true));

  // Eight of the nine blocks drop samples: all but the first.
  Store store(7);
  const auto model =
      make_model("resnet20", {.height = 8, .width = 8, .stochastic_depth = 0.5}, store);
  TrainingScope training;
  const Graph graph = capture(
      [&](const Tensors& in) {
        RandomScope random(1, in[1]);
        return Tensors{(*model)(in[0])};
      },
      {{DType::f32, {4, 8, 8, 3}, {}}, {DType::i64, {2}, {}}});
  EXPECT_EQ(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                          [](const Node& node) { return node.op->name() == "dropout"; }),
            8);
}

TEST(Zoo, WhatCannotBeMadeIsExplained) {
  EXPECT_EQ(
      message_of("resnet21", {}),
      "model: 'resnet21' is not one of mlp, lenet5, cnn_bn, resnet20, resnet32, "
      "resnet44, resnet56, resnet110, resnet18, resnet34, resnet50, resnet101, resnet152, "
      "resnet18_cifar, wide_resnet, alexnet, vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn, "
      "densenet121, densenet_bc, mobilenet_v2, googlenet, seresnet18, seresnet50, "
      "shufflenet_v2_x0_5, shufflenet_v2_x1_0, shufflenet_v2_x1_5, shufflenet_v2_x2_0, "
      "mobilenet_v3_small, mobilenet_v3_large, efficientnet_b0, efficientnet_b1, efficientnet_b2, "
      "efficientnet_b3, efficientnet_b4, regnet_y_400mf, regnet_y_800mf, regnet_y_1_6gf, "
      "regnet_y_3_2gf, convnext_atto, convnext_femto, convnext_pico, convnext_nano, convnext_tiny");
  EXPECT_EQ(message_of("resnet20", {.classes = 0}),
            "model resnet20: classes must be at least 1, but is 0");
  EXPECT_EQ(message_of("resnet20", {.dropout = 0.5}),
            "model resnet20: has no option dropout (its options: classes, stochastic_depth)");
  EXPECT_EQ(message_of("lenet5", {.widths = {3}}),
            "model lenet5: has no option widths (its options: classes)");
  EXPECT_EQ(message_of("convnext_atto", {.stochastic_depth = 1}),
            "model convnext_atto: stochastic_depth must be in [0, 1), but is 1");
  EXPECT_EQ(message_of("googlenet", {.stochastic_depth = 0.1}),
            "model googlenet: has no option stochastic_depth (its options: classes, dropout)");
  EXPECT_EQ(message_of("mlp", {.dropout = 1}), "model mlp: dropout must be in [0, 1), but is 1");
  EXPECT_EQ(message_of("lenet5", {.height = 11, .width = 28}),
            "lenet5: images must be at least 12x12 pixels, but are 11x28");
  EXPECT_EQ(message_of("cnn_bn", {.height = 3, .width = 3}),
            "cnn_bn: 4 convolutions need a larger image than 3x3");
  EXPECT_EQ(message_of("cnn_bn", {.widths = {1, 1, 1, 1, 1}}),
            "cnn_bn: must have one to four widths, but has 5");
}

}  // namespace
}  // namespace tessera
