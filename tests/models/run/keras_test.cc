// Weights of Keras, saved by tests/golden/make_keras.py: keras.weights.h5 in the current form,
// keras_model.h5 and keras_2.h5 in the older one.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/models/config/network.h"
#include "tessera/models/data/formats/hdf5_writer.h"
#include "tessera/models/run/pretrained.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/models/zoo/names/name_tables.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/golden/formula.h"
#include "tessera/tests/golden/golden_file.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

using testing_checkpoint::TemporaryFolder;

constexpr char kKeras[] = TESSERA_SOURCE_DIR "/tests/golden/keras.weights.h5";
constexpr char kWholeModel[] = TESSERA_SOURCE_DIR "/tests/golden/keras_model.h5";
constexpr char kKeras2[] = TESSERA_SOURCE_DIR "/tests/golden/keras_2.h5";
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

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string load(TrainedNetwork& trained, const std::string& path) {
  Pretrained pretrained(path);
  const std::string told = pretrained.match(trained.config, trained.image);
  pretrained.load(trained.store);
  return told;
}

// Returns the largest distance from the file's logits, relative to the largest of these.
double distance(const TrainedNetwork& trained, const golden::File& file,
                const golden::Spec& images) {
  const golden::Array logits = file.read("logits");
  const TrainingScope evaluation(false);
  const NoGradScope no_grad;
  const Tensor x =
      from_vector({2, trained.image.height, trained.image.width, 3}, golden::floats(images));
  const std::vector<float> computed = (*trained.network)(x).to_vector<float>();
  if (computed.size() != logits.values.size()) return 1;
  double largest = 0, apart = 0;
  for (size_t i = 0; i < computed.size(); ++i) {
    largest = std::max(largest, std::abs(logits.values[i]));
    apart = std::max(apart, std::abs(computed[i] - logits.values[i]));
  }
  return apart / largest;
}

class KerasFiles : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(OfEachForm, KerasFiles, testing::Values(kKeras, kWholeModel, kKeras2));

TEST_P(KerasFiles, ComputeWhatKerasComputes) {
  const auto trained = keras_layers();
  EXPECT_NE(load(*trained, GetParam()).find(": 15 of 15 tensors"), std::string::npos);
  const golden::File file(TESSERA_SOURCE_DIR "/tests/golden/keras_logits.h5");
  const golden::Spec images = golden::parse_spec(file.text("/", "images"));
  EXPECT_LE(distance(*trained, file, images), 1e-5);
}

void expect_same_tensors(const std::string& file, const std::string& other) {
  const auto one = open_weight_source(file), two = open_weight_source(other);
  EXPECT_EQ(two->form(), WeightForm::keras);
  ASSERT_EQ(one->tensors().size(), two->tensors().size());
  for (size_t i = 0; i < one->tensors().size(); ++i) {
    const SourceTensor &a = one->tensors()[i], &b = two->tensors()[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.shape, b.shape) << a.name;
    std::vector<double> x(a.elements()), y(a.elements());
    one->read(i, 0, x);
    two->read(i, 0, y);
    EXPECT_EQ(x, y) << a.name;
  }
}

TEST(Keras, WhatIsExportedIsWhatKerasWouldSave) {
  const TemporaryFolder folder;
  const auto trained = keras_layers();
  load(*trained, kKeras);
  const std::string path = folder.path("model.weights.h5"), older = folder.path("model.h5");
  export_keras(*trained, path, KerasForm::now);
  expect_same_tensors(kKeras, path);
  export_keras(*trained, older, KerasForm::before);
  expect_same_tensors(kKeras, older);
  const auto before = open_weight_source(older), keras_2 = open_weight_source(kKeras2);
  EXPECT_EQ(before->layers().size(), 7u);  // layers with weights
  EXPECT_EQ(keras_2->layers().size(), 9u);
  for (const char* missing : {"no/model.weights.h5", "no/model.h5"})
    EXPECT_THROW(export_keras(*trained, folder.path(missing), KerasForm::before), CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
}

// Both older forms hold the names, shapes and values of the Keras 3 form.
TEST_P(KerasFiles, HoldTheSameTensors) { expect_same_tensors(kKeras, GetParam()); }

// Returns the error of opening the file after `from` was replaced by an equally long `to`.
std::string error_with(const char* path, const std::string& from, const std::string& to) {
  std::string bytes = read_text(path);
  const size_t at = bytes.find(from);
  EXPECT_NE(at, bytes.npos) << from;
  if (at == bytes.npos) return "";
  bytes.replace(at, from.size(), to);
  const TemporaryFolder folder;
  std::ofstream(folder.path("a.h5"), std::ios::binary) << bytes;
  try {
    open_weight_source(folder.path("a.h5"));
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

TEST(OlderKeras, FilesThatLieAreRefusedByName) {
  const auto expect = [](const char* part, const char* path, const std::string& from,
                         const std::string& to) {
    const std::string text = error_with(path, from, to);
    EXPECT_NE(text.find(part), std::string::npos) << from << ": " << text;
  };
  expect("lists the weight 'conv2d/bios:0', which is missing or listed twice", kKeras2,
         "conv2d/bias:0", "conv2d/bios:0");
  expect("'depthwise_conv2d/depthwise_kernel:0', which is missing or listed twice", kKeras2,
         std::string("depthwise_conv2d/bias:0") + std::string(13, '\0'),
         "depthwise_conv2d/depthwise_kernel:0" + std::string(1, '\0'));
  expect("'a_name_of_its_own/a_name_of_its_own/bias:0' belongs to no layer", kKeras2,
         "a_name_of_its_own" + std::string(1, '\0'), "a_name_of_its_owm" + std::string(1, '\0'));
  expect("global heap", kWholeModel, "GCOL", "GCOK");
}

// Inverts every 997th byte: each gives an error or tensors that can be read.
TEST(OlderKeras, NoByteIsBelieved) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.h5");
  for (const char* original : {kWholeModel, kKeras2}) {
    const std::string whole = read_text(original);
    int refused = 0;
    for (size_t at = 0; at < whole.size(); at += 997) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(~bytes[at]);
      std::ofstream(path, std::ios::binary) << bytes;
      try {
        const auto source = open_weight_source(path);
        for (size_t i = 0; i < source->tensors().size(); ++i) {
          std::vector<double> values(source->tensors()[i].elements());
          source->read(i, 0, values);
        }
      } catch (const CheckpointError&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 3);
  }
}

// Writes a file of these layers, each with one weight.
void write_layers(const std::string& path, const std::vector<std::string>& layers) {
  Hdf5Writer file(path);
  file.texts("", "layer_names", layers);
  for (const std::string& layer : layers) {
    file.texts(layer, "weight_names", {layer + "/kernel:0"});
    const std::vector<float> values(27);
    file.array({layer + "/" + layer + "/kernel:0", "float32", {3, 3, 3, 1}}, values.data());
  }
  file.close();
}

std::string error_of(const std::string& path, const char* model) {
  const Config config = parse_config(fmt::format("model: {{name: {}}}", model), "a.yaml");
  try {
    Pretrained(path).match(config, {224, 224, 3});
  } catch (const CheckpointError& error) {
    return error.what();
  }
  return "";
}

TEST(KerasApplications, ThatComputeSomethingElseAreRefusedByName) {
  const TemporaryFolder folder;
  const std::string path = folder.path("a.h5");
  const auto expect = [&](const std::vector<std::string>& layers, const char* model,
                          const std::string& part) {
    write_layers(path, layers);
    const std::string text = error_of(path, model);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect({"Conv1", "expanded_conv_project"}, "mobilenet_v2",
         "is keras.applications' MobileNetV2, which pads images only");
  expect({"stem_conv", "block1a_dwconv", "block7a_project_conv"}, "efficientnet_b0",
         "is keras.applications' EfficientNet, which pads");
  expect({"conv1_conv", "conv2_block1_1_conv", "conv2_block1_3_bn"}, "resnet50",
         "is keras.applications' ResNet, which has its strides in the first");
  expect({"block1_conv1", "block5_conv3"}, "vgg16_bn",
         "is keras.applications' VGG, which has no batch norms");
  expect({"conv1_conv", "conv2_block1_0_bn", "conv4_block24_2_conv"}, "resnet50",
         "does not fit resnet50. It is keras.applications' DenseNet121");
}

// Requires the file of make_keras.py --applications (30 MB).
TEST(KerasApplications, ThatAreOursComputeWhatKerasComputes) {
  const char* folder = std::getenv("TESSERA_KERAS_APPLICATIONS");
  if (folder == nullptr) GTEST_SKIP() << "TESSERA_KERAS_APPLICATIONS is not set";
  const std::string base = std::string(folder) + "/DenseNet121";
  const golden::File file(base + "_logits.h5");
  const golden::Spec images = golden::parse_spec(file.text("/", "images"));
  const int side = static_cast<int>(images.shape[1]);
  TrainedNetwork trained;
  trained.config = parse_config(
      fmt::format("model: {{name: {}, classes: 1000}}", file.text("/", "model")), "a.yaml");
  trained.image = {side, side, 3};
  trained.network = make_network(trained.config, trained.image, trained.store);
  const std::string told = load(trained, base + ".h5");
  EXPECT_NE(told.find("(keras.applications' DenseNet121): 606 of 606"), std::string::npos) << told;
  EXPECT_LE(distance(trained, file, images), 1e-5);
}

// keras.applications adds 1.001e-5 to each variance, our networks 1e-5.
TEST(KerasApplications, AnotherEpsIsAddedToTheVariances) {
  const KerasApplication* known =
      keras_application({"conv1_conv", "conv2_block1_0_bn", "conv4_block24_2_conv"});
  ASSERT_NE(known, nullptr);
  EXPECT_EQ(known->ours, "densenet121");
  EXPECT_EQ(known->eps, 1.001e-5);
  EXPECT_EQ(keras_application({}), nullptr);
}

// Keras 3 files do not name their network.
TEST(KerasApplications, ThatFitButComputeSomethingElseAreWarnedOf) {
  TrainedNetwork ours;
  ours.config = parse_config("model: {name: mobilenet_v2, classes: 10}", "a.yaml");
  ours.inference = "{}";
  ours.image = {64, 64, 3};
  ours.network = make_network(ours.config, ours.image, ours.store);
  const TemporaryFolder folder;
  for (const KerasForm form : {KerasForm::now, KerasForm::before}) {
    const std::string path = folder.path(form == KerasForm::now ? "a.weights.h5" : "a.h5");
    export_keras(ours, path, form);
    EXPECT_NE(
        load(ours, path).find("262 of 262 tensors; weights of keras.applications' MobileNetV2"),
        std::string::npos);
  }
}

// A list that is longer than an attribute is stored in parts.
TEST(OlderKeras, LongListsAreReadWhole) {
  const TemporaryFolder folder;
  std::vector<std::string> layers;
  for (int i = 0; i < 700; ++i) layers.push_back(fmt::format("{}{}", std::string(100, 'a'), i));
  write_layers(folder.path("a.h5"), layers);
  EXPECT_EQ(open_weight_source(folder.path("a.h5"))->layers(), layers);
}

TEST(Keras, AHeadOfAnotherWidthIsNewAndTheRestMustFit) {
  const auto wider = keras_layers("12");
  EXPECT_NE(load(*wider, kKeras).find("; linear8 is new: 12 classes, but the file has 10"),
            std::string::npos);
  TrainedNetwork other;
  other.config = parse_config("model: {name: lenet5}", "a.yaml");
  try {
    Pretrained(kKeras).match(other.config, {28, 28, 1});
    FAIL();
  } catch (const CheckpointError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("different shape: 'layers/conv2d/vars/0' is [3x3x1x6] in the file, but "
                        "[5x5x1x6] here"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("unexpected: 'layers/batch_normalization/vars/0' [6]"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera
