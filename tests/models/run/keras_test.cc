// Weights of Keras, which saved tests/golden/keras.weights.h5 (make_keras.py).
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/models/config/network.h"
#include "tessera/models/run/export_keras.h"
#include "tessera/models/run/pretrained.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/golden/formula.h"
#include "tessera/tests/golden/golden_file.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

using testing_checkpoint::TemporaryFolder;

constexpr char kKeras[] = TESSERA_SOURCE_DIR "/tests/golden/keras.weights.h5";
constexpr ImageShape kImage{10, 8, 3};

std::unique_ptr<TrainedNetwork> keras_layers(const char* classes = "10") {
  auto trained = std::make_unique<TrainedNetwork>();
  trained->config = parse_config(fmt::format(R"(
model:
  classes: {0}
  layers:
    - {{conv: {{filters: 6, kernel: 3, padding: 1, groups: 3}}}}
    - {{layer_norm: {{eps: 0.001}}}}
    - {{conv: {{filters: 6, kernel: 3, groups: 6}}}}
    - {{batch_norm: {{eps: 0.001}}}}
    - relu
    - {{conv: {{filters: 4, kernel: 3, bias: false}}}}
    - flatten
    - {{linear: {{units: 5}}}}
    - {{linear: {{units: {0}}}}}
)",
                                             classes),
                                 "a.yaml");
  trained->inference = "{}";
  trained->image = kImage;
  trained->network = make_network(trained->config, kImage, trained->store);
  return trained;
}

std::string load(TrainedNetwork& trained, const std::string& path) {
  Pretrained pretrained(path);
  const std::string told = pretrained.match(trained.config, kImage);
  pretrained.load(trained.store);
  return told;
}

TEST(Keras, NetworksComputeWhatKerasComputes) {
  const auto trained = keras_layers();
  EXPECT_NE(load(*trained, kKeras).find(": 15 of 15 tensors"), std::string::npos);
  const golden::File file(TESSERA_SOURCE_DIR "/tests/golden/keras_logits.h5");
  const golden::Array logits = file.read("logits");
  const golden::Spec images = golden::parse_spec(file.text("/", "images"));
  const TrainingScope evaluation(false);
  const NoGradScope no_grad;
  const Tensor x = from_vector({2, kImage.height, kImage.width, 3}, golden::floats(images));
  const std::vector<float> computed = (*trained->network)(x).to_vector<float>();
  ASSERT_EQ(computed.size(), logits.values.size());
  double largest = 0, apart = 0;
  for (size_t i = 0; i < computed.size(); ++i) {
    largest = std::max(largest, std::abs(logits.values[i]));
    apart = std::max(apart, std::abs(computed[i] - logits.values[i]));
  }
  EXPECT_LE(apart, 1e-5 * largest);
}

TEST(Keras, WhatIsExportedIsWhatKerasWouldSave) {
  const TemporaryFolder folder;
  const auto trained = keras_layers();
  load(*trained, kKeras);
  const std::string path = folder.path("model.weights.h5");
  export_keras(*trained, path);
  const auto theirs = open_weight_source(kKeras), ours = open_weight_source(path);
  ASSERT_EQ(theirs->tensors().size(), ours->tensors().size());
  for (size_t i = 0; i < ours->tensors().size(); ++i) {
    const SourceTensor &a = theirs->tensors()[i], &b = ours->tensors()[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.shape, b.shape) << a.name;
    std::vector<double> x(a.elements()), y(a.elements());
    theirs->read(i, 0, x);
    ours->read(i, 0, y);
    EXPECT_EQ(x, y) << a.name;
  }
  EXPECT_THROW(export_keras(*trained, folder.path("no/model.weights.h5")), CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

TEST(Keras, AHeadOfAnotherWidthIsNewAndTheRestMustFit) {
  const auto wider = keras_layers("12");
  EXPECT_NE(load(*wider, kKeras).find("; linear8 is new: 12 classes, where the file has 10"),
            std::string::npos);
  TrainedNetwork other;
  other.config = parse_config("model: {name: lenet5}", "a.yaml");
  try {
    Pretrained(kKeras).match(other.config, {28, 28, 1});
    FAIL();
  } catch (const CheckpointError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("of another shape: 'layers/conv2d/vars/0' is [3x3x1x6] in the file, but "
                        "[5x5x1x6] here"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("left over: 'layers/batch_normalization/vars/0' [6]"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
