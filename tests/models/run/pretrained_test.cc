// Weights that other programs publish. torchvision, timm and the safetensors library made the
// golden files (tests/golden/make_weights.py).
#include "tessera/models/run/pretrained.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/storage.h"
#include "tessera/models/config/network.h"
#include "tessera/models/data/formats/hdf5_writer.h"
#include "tessera/models/data/formats/safetensors.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/models/run/weights.h"
#include "tessera/models/zoo/names/name_tables.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/golden/formula.h"
#include "tessera/tests/golden/golden_file.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

using testing_checkpoint::TemporaryFolder;

constexpr char kGolden[] = TESSERA_SOURCE_DIR "/tests/golden/weights.h5";

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};

// Parses "conv1.weight 64x3x7x7".
NamedShape parse_named(const std::string& text) {
  const size_t space = text.find(' ');
  return {text.substr(0, space), golden::parse_extents(text.substr(space + 1))};
}

std::vector<NamedShape> published(const golden::File& file, const std::string& network) {
  std::vector<NamedShape> all;
  for (const std::string& text : file.texts(network + "/names")) all.push_back(parse_named(text));
  return all;
}

// Writes a file of these tensors; without values they are zeros, which take no disk space.
void write_safetensors(const std::string& path, const std::vector<NamedShape>& all,
                       const std::vector<std::vector<float>>& values = {}) {
  std::vector<SafeTensor> tensors;
  for (const NamedShape& one : all) {
    tensors.push_back(safe_tensor({one.name, "float32", one.shape}));
  }
  const std::string front = safetensors_front(tensors, {});
  std::ofstream file(path, std::ios::binary);
  file << front;
  for (const std::vector<float>& one : values)
    file.write(reinterpret_cast<const char*>(one.data()),
               static_cast<std::streamsize>(one.size() * sizeof(float)));
  file.close();
  std::filesystem::resize_file(path, tensors.back().offset + tensors.back().bytes);
}

std::vector<std::string> networks(const golden::File& file) {
  std::vector<std::string> all;
  for (const std::string& program : file.members("/"))
    for (const std::string& network : file.members(program)) all.push_back(program + "/" + network);
  return all;
}

Config config_of(const std::string& model, int64_t classes) {
  Config config;
  config.model.name = model;
  config.model.classes = classes;
  return config;
}

class PretrainedTest : public testing::Test {
 protected:
  // Returns the message of Pretrained::match(), or its error.
  std::string match(const Config& config, const ImageShape& image = {224, 224, 3}) const {
    try {
      return Pretrained(path_).match(config, image);
    } catch (const CheckpointError& error) {
      return error.what();
    }
  }
  // lenet5 for 28 x 28 x 1; there are no published weights of it.
  static std::vector<NamedShape> lenet() {
    return {{"conv1.weight", {6, 1, 5, 5}},  {"conv1.bias", {6}},
            {"conv2.weight", {16, 6, 5, 5}}, {"conv2.bias", {16}},
            {"fc1.weight", {120, 400}},      {"fc1.bias", {120}},
            {"fc2.weight", {84, 120}},       {"fc2.bias", {84}},
            {"fc3.weight", {10, 84}},        {"fc3.bias", {10}}};
  }
  std::string match_lenet(const std::vector<NamedShape>& all, int64_t classes = 10) {
    write_safetensors(path_, all);
    return match(config_of("lenet5", classes), {28, 28, 1});
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path("x.safetensors");
};

TEST_F(PretrainedTest, NetworksComputeWhatTheirProgramsComputeWithTheSameFile) {
  const char* others = std::getenv("TESSERA_WEIGHTS_GOLDEN");  // made by make_weights.py --large
  const golden::File file(others != nullptr ? others : kGolden);
  int count = 0;
  for (const std::string& network : networks(file)) {
    if (!file.has(network + "/specs")) continue;
    SCOPED_TRACE(network);
    std::vector<NamedShape> all;
    std::vector<std::vector<float>> values;
    const std::string prefix = network + "/";
    for (const std::string& text : file.texts(network + "/specs")) {
      const golden::Spec spec = golden::parse_spec(text);
      all.push_back({spec.name.substr(prefix.size()), spec.shape});
      values.push_back(golden::floats(spec));
    }
    write_safetensors(path_, all, values);
    const golden::Spec images = golden::parse_spec(file.text(network, "images"));
    const golden::Array logits = file.read(network + "/logits");
    const Config config = config_of(file.text(network, "model"), logits.shape[1]);
    const auto side = static_cast<int>(images.shape[1]);
    Pretrained pretrained(path_);
    pretrained.match(config, {side, side, 3});
    Store store(1);
    const auto model = make_network(config, {side, side, 3}, store);
    pretrained.load(store);
    const TrainingScope evaluation(false);
    const NoGradScope no_grad;
    const Tensor x = from_vector({images.shape[0], side, side, 3}, golden::floats(images));
    const std::vector<float> computed = (*model)(x).to_vector<float>();
    ASSERT_EQ(computed.size(), logits.values.size());
    double largest = 0, apart = 0;
    for (size_t i = 0; i < computed.size(); ++i) {
      largest = std::max(largest, std::abs(logits.values[i]));
      apart = std::max(apart, std::abs(computed[i] - logits.values[i]));
    }
    EXPECT_LE(apart, 1e-5 * largest);
    RecordProperty(network, fmt::format("{:.2g}", apart / largest));
    ++count;
  }
  EXPECT_GE(count, 8);
}

// Exporting weights that were read writes their names, shapes and bits.
TEST_F(PretrainedTest, WhatIsExportedIsWhatTheProgramWouldWrite) {
  const golden::File file(kGolden);
  for (const std::string network : {"torchvision/mobilenet_v2", "torchvision/alexnet"}) {
    SCOPED_TRACE(network);
    std::map<std::string, std::vector<float>> wanted;
    std::map<std::string, std::vector<int64_t>> shapes;
    std::vector<NamedShape> all;
    std::vector<std::vector<float>> values;
    for (const std::string& text : file.texts(network + "/specs")) {
      const golden::Spec spec = golden::parse_spec(text);
      all.push_back({spec.name.substr(network.size() + 1), spec.shape});
      values.push_back(golden::floats(spec));
      wanted[all.back().name] = values.back(), shapes[all.back().name] = spec.shape;
    }
    write_safetensors(path_, all, values);
    const golden::Spec images = golden::parse_spec(file.text(network, "images"));
    const auto side = static_cast<int>(images.shape[1]);
    TrainedNetwork trained;
    trained.config = config_of(file.text(network, "model"), 10);
    trained.image = {side, side, 3};
    trained.network = make_network(trained.config, trained.image, trained.store);
    Pretrained pretrained(path_);
    pretrained.match(trained.config, trained.image);
    pretrained.load(trained.store);
    const std::string out = folder_.path("out.safetensors");
    EXPECT_EQ(export_safetensors(trained, out), "torchvision's " + trained.config.model.name);
    const auto source = open_weight_source(out);
    ASSERT_EQ(source->tensors().size(), wanted.size());
    for (size_t i = 0; i < source->tensors().size(); ++i) {
      const SourceTensor& tensor = source->tensors()[i];
      EXPECT_EQ(tensor.shape, shapes[tensor.name]) << tensor.name;
      std::vector<double> read(tensor.elements());
      source->read(i, 0, read);
      const std::vector<float>& want = wanted[tensor.name];
      EXPECT_TRUE(std::equal(read.begin(), read.end(), want.begin(), want.end())) << tensor.name;
    }
  }
}

TEST_F(PretrainedTest, EveryPublishedFileFitsItsNetworkAndItsHeadMayBeNew) {
  const golden::File file(kGolden);
  for (const std::string& network : networks(file)) {
    SCOPED_TRACE(network);
    write_safetensors(path_, published(file, network));
    const std::string model = file.text(network, "model");
    // If both programs use the same names, torchvision's are tried first.
    const bool only_timms = has(network, "timm/vgg") || has(network, "timm/mobilenet") ||
                            has(network, "timm/efficientnet") ||
                            name_tables(model).front().program == "timm";
    const std::string name = network.substr(network.find('/') + 1);
    const std::string whose = (only_timms ? "timm's " : "torchvision's ") + name;
    const std::vector<NamedShape> shapes = published(file, network);
    const auto all = std::count_if(shapes.begin(), shapes.end(), [](const NamedShape& tensor) {
      return !tensor.name.starts_with("aux");  // auxiliary heads
    });
    const std::string told = match(config_of(model, 1000));
    EXPECT_TRUE(has(told, fmt::format(": {0} of {0} tensors", all))) << told;
    EXPECT_FALSE(has(told, "new")) << told;
    EXPECT_TRUE(has(told, "(" + whose + ")")) << told;
    const std::string five = match(config_of(model, 5));
    EXPECT_TRUE(has(five, fmt::format(": {} of {} tensors; ", all - 2, all))) << five;
    EXPECT_TRUE(has(five, "is new: 5 classes, but the file has 1000")) << five;
  }
}

// Names and shapes must be equal: PyTorch can load our exports with strict=True.
TEST_F(PretrainedTest, EveryNetworkIsWrittenInTheShapesThatItsProgramPublished) {
  const golden::File file(kGolden);
  int count = 0;
  for (const std::string& network : networks(file)) {
    const std::string model = file.text(network, "model");
    const NameTable& table = name_tables(model).front();
    if (network != table.program + "/" + table.network) continue;
    SCOPED_TRACE(network);
    std::map<std::string, std::vector<int64_t>> wanted, written;
    for (const NamedShape& tensor : published(file, network))
      if (!table.is_unused(tensor.name) && !tensor.name.ends_with("num_batches_tracked"))
        wanted[tensor.name] = tensor.shape;
    Store store(1);
    const auto net = make_network(config_of(model, 1000), {224, 224, 3}, store);
    for (const ForeignWeight& weight : foreign_weights(
             WeightForm::pytorch, weight_layouts(*net, store, {224, 224, 3}, 1000), table))
      written[weight.name] = weight.shape;
    EXPECT_EQ(written, wanted);
    ++count;
  }
  EXPECT_GE(count, 30);
}

TEST_F(PretrainedTest, AFileOfAnotherNetworkSaysWhichItLooksLike) {
  const golden::File file(kGolden);
  const std::pair<const char*, const char*> cases[] = {
      {"torchvision/resnet34", "torchvision's resnet34, which is model.name=resnet34"},
      {"torchvision/vgg13_bn", "torchvision's vgg13_bn, which is model.name=vgg13_bn"},
      {"timm/mobilenetv2_100", "timm's mobilenetv2_100, which is model.name=mobilenet_v2"},
  };
  for (const auto& [network, text] : cases) {
    write_safetensors(path_, published(file, network));
    const std::string told = match(config_of("resnet50", 1000));
    EXPECT_TRUE(has(told, std::string("does not fit resnet50. It looks like ") + text)) << told;
    EXPECT_TRUE(has(told, "\n  missing: ")) << told;
  }
}

// A file for ten classes is recognised too: resnet18 was mistaken for resnet18_cifar, of which only
// the head has the same shape.
TEST_F(PretrainedTest, TheNetworkOfAFileIsRecognisedForAnyNumberOfClasses) {
  const golden::File file(kGolden);
  for (const std::string model : {"resnet18", "densenet121", "mobilenet_v2"}) {
    std::vector<NamedShape> all = published(file, "torchvision/" + model);
    for (NamedShape& tensor : all)
      if (tensor.shape.size() < 3 && !tensor.shape.empty() && tensor.shape[0] == 1000)
        tensor.shape[0] = 10;
    write_safetensors(path_, all);
    EXPECT_TRUE(has(match(config_of("resnet50", 10)), "which is model.name=" + model)) << model;
    all.erase(std::find_if(all.begin(), all.end(),
                           [](const NamedShape& tensor) { return tensor.shape.size() == 4; }));
    write_safetensors(path_, all);
    const std::string told = match(config_of(model, 10));
    EXPECT_TRUE(has(told, "does not fit " + model + ".\n")) << told;
  }
  Store store;
  make_network(config_of("resnet18_cifar", 7), {32, 32, 3}, store);
  const std::string own = folder_.path("weights.safetensors");
  save_weights(store, own, 7, "{}");
  try {
    Pretrained(own).match(config_of("resnet18", 7), {224, 224, 3});
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_TRUE(has(error.what(), "It looks like Tessera's resnet18_cifar")) << error.what();
  }
}

TEST_F(PretrainedTest, WhatWrappersPutBeforeEveryNameIsLeftOutAndSaid) {
  for (const std::string prefix : {"module.", "model.", "_orig_mod.module."}) {
    std::vector<NamedShape> all = lenet();
    for (NamedShape& one : all) one.name = prefix + one.name;
    const std::string told = match_lenet(all);
    EXPECT_TRUE(
        has(told, ": 10 of 10 tensors; the prefix '" + prefix + "' of every name is ignored"))
        << told;
    all[3].name = "conv2.bias";
    EXPECT_TRUE(has(match_lenet(all), "unexpected: '" + prefix + "conv1.weight'"));
  }
  EXPECT_FALSE(has(match_lenet(lenet()), "is ignored"));
}

TEST_F(PretrainedTest, EverythingThatDoesNotFitIsListedWithTheNearestName) {
  EXPECT_TRUE(has(match_lenet(lenet()), ": 10 of 10 tensors"));
  std::vector<NamedShape> all = lenet();
  all[0].name = "conv1.wieght";
  all[2].shape = {16, 6, 3, 3};
  all.push_back({"extra.bias", {3}});
  all.push_back({"bn1.num_batches_tracked", {}});
  const std::string told = match_lenet(all);
  EXPECT_EQ(told, "weights '" + path_ +
                      "': does not fit lenet5.\n"
                      "  missing: 'conv1.weight' [6x1x5x5]; the file has 'conv1.wieght'\n"
                      "  different shape: 'conv2.weight' is [16x6x3x3] in the file, but [16x6x5x5] "
                      "here\n"
                      "  unexpected: 'conv1.wieght' [6x1x5x5]\n"
                      "  unexpected: 'extra.bias' [3]");
}

TEST_F(PretrainedTest, AHeadMayBeMissingButNotHalfOfTheRest) {
  std::vector<NamedShape> all = lenet();
  all.resize(8);
  EXPECT_TRUE(has(match_lenet(all), ": 8 of 10 tensors; fc3 is new, because the file has none"));
  EXPECT_TRUE(has(match_lenet(lenet(), 7), "fc3 is new: 7 classes, but the file has 10"));
  all = lenet();
  all[8].shape = {10, 85};
  EXPECT_TRUE(has(match_lenet(all), "different shape: 'fc3.weight' is [10x85] in the file"));
}

TEST_F(PretrainedTest, ImagesOfAnotherSizeAreNamedAsTheReason) {
  const golden::File file(kGolden);
  write_safetensors(path_, published(file, "torchvision/alexnet"));
  const std::string told = match(config_of("alexnet", 1000), {96, 96, 3});
  EXPECT_TRUE(has(told,
                  "'classifier.1.weight' is [4096x9216] in the file, but [4096x1024] here; the "
                  "network was trained on images of another size"))
      << told;
  EXPECT_FALSE(has(told, "looks like")) << told;
}

TEST(ForeignWeights, OnlyANormalisationsGammaIsAWeight) {
  std::vector<WeightLayout> layouts(5);
  const char* names[] = {"block.gamma", "block.norm.gamma", "block.norm.beta", "a.weight", "gamma"};
  for (size_t i = 0; i < layouts.size(); ++i) layouts[i].name = names[i];
  const NameTable table{"", "", {{"block", "stages.0"}, {"block.norm", "stages.0.n"}}, {}};
  std::vector<std::string> theirs;
  for (const ForeignWeight& weight : foreign_weights(WeightForm::pytorch, layouts, table))
    theirs.push_back(weight.name);
  EXPECT_EQ(theirs, (std::vector<std::string>{"stages.0.gamma", "stages.0.n.weight",
                                              "stages.0.n.bias", "a.weight", "gamma"}));
}

TEST_F(PretrainedTest, ValuesThatAreNotFiniteAreRefused) {
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF}) {
    std::vector<std::vector<float>> values;
    for (const NamedShape& one : lenet()) {
      int64_t count = 1;
      for (const int64_t extent : one.shape) count *= extent;
      values.emplace_back(static_cast<size_t>(count), 0.5f);
    }
    values[2][77] = wrong;
    write_safetensors(path_, lenet(), values);
    Pretrained pretrained(path_);
    pretrained.match(config_of("lenet5", 10), {28, 28, 1});
    Store store(1);
    make_network(config_of("lenet5", 10), {28, 28, 1}, store);
    try {
      pretrained.load(store);
      FAIL();
    } catch (const CheckpointError& error) {
      EXPECT_TRUE(has(error.what(), "'conv2.weight' has the value")) << error.what();
      EXPECT_TRUE(has(error.what(), "at element 77")) << error.what();
    }
    EXPECT_THROW(pretrained.check(), CheckpointError);
  }
}

TEST_F(PretrainedTest, NegativeVariancesAreRefused) {
  const Config config = parse_config(
      "model: {classes: 10, layers: [{conv: {filters: 3, kernel: 3}}, batch_norm, flatten, "
      "{linear: {units: 10}}]}",
      "a.yaml");
  Store store(1);
  make_network(config, {3, 3, 1}, store);
  const std::string path = folder_.path("weights.safetensors");
  for (const bool negative : {false, true}) {
    const std::vector<float> values = {1, 0, negative ? -0.25F : 0.25F};
    Tensor variances = store.buffers()[1];
    variances.assign(std::span<const float>(values));
    save_weights(store, path, 7, "{}");
    Pretrained pretrained(path);
    pretrained.match(config, {3, 3, 1});
    if (!negative) {
      EXPECT_NO_THROW(pretrained.check());
      continue;
    }
    for (const bool loads : {false, true}) try {
        loads ? pretrained.load(store) : pretrained.check();
        FAIL();
      } catch (const CheckpointError& error) {
        EXPECT_TRUE(has(error.what(),
                        ".running_var' has the value -0.25 at element 2, but variances must not "
                        "be negative; use another copy"))
            << error.what();
      }
  }
}

TEST_F(PretrainedTest, FilesThatAreNoneSayWhatTheyAre) {
  EXPECT_TRUE(has(match({}), "x.safetensors': cannot be opened: No such file"));
  std::ofstream(path_) << "PK\x03\x04 a zip of torch.save";
  EXPECT_TRUE(
      has(match({}), "is a file of torch.save(), which is not read because it can run programs"));
  std::ofstream(path_) << "12345678 nothing of the kind";
  EXPECT_TRUE(has(match({}), "is not a safetensors file, or is damaged: its header would have"));
}

TEST_F(PretrainedTest, ANameThatIsInTwoGroupsIsRefused) {
  const std::string path = folder_.path("twice.h5");
  Hdf5Writer file(path);
  const float value = 1;
  for (const char* name : {"weights/fc.weight", "statistics/fc.weight", "weights/fc.bias"})
    file.array({name, "float32", {1}}, &value);
  file.close();
  try {
    open_weight_source(path);
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_TRUE(has(error.what(), "the name 'fc.weight' occurs twice")) << error.what();
  }
}

TEST_F(PretrainedTest, OurOwnFilesAreReadWithTheirNamesAndOrder) {
  const ImageShape image{28, 28, 1};
  Store trained(3);
  make_network(config_of("lenet5", 10), image, trained);
  const std::string path = folder_.path("weights.safetensors");
  save_weights(trained, path, 7, "{}");
  const std::string old = folder_.path("weights.h5");  // format of earlier versions
  Hdf5Writer file(old);
  for (const Tensor& tensor : trained.parameters())
    file.array(
        {tensor.impl()->storage->name, "float32", {tensor.shape().begin(), tensor.shape().end()}},
        tensor.to_vector<float>().data());
  file.close();
  for (const auto& [from, classes] :
       {std::pair(path, 10), std::pair(path, 4), std::pair(old, 10), std::pair(old, 4)}) {
    Pretrained pretrained(from);
    const std::string told = pretrained.match(config_of("lenet5", classes), image);
    EXPECT_TRUE(has(told, classes == 10 ? ": 10 of 10 tensors" : "fc3 is new")) << told;
    Store store(4);
    make_network(config_of("lenet5", classes), image, store);
    const std::vector<float> head = store.find("fc3.weight").to_vector<float>();
    pretrained.load(store);
    for (const Tensor& tensor : trained.parameters()) {
      const std::string& name = tensor.impl()->storage->name;
      const bool fresh = classes == 4 && name.starts_with("fc3.");
      const std::vector<float> values = store.find(name).to_vector<float>();
      if (!fresh) {
        EXPECT_EQ(values, tensor.to_vector<float>()) << name;
      } else if (name == "fc3.weight") {
        EXPECT_EQ(values, head);
      }
    }
  }
}

TEST_F(PretrainedTest, TheLibrarysDtypesAreConverted) {
  const auto source = open_weight_source(TESSERA_SOURCE_DIR "/tests/golden/library.safetensors");
  const std::vector<float> base = golden::uniform("library", 6, 4.0);
  std::vector<std::string> names;
  for (size_t i = 0; i < source->tensors().size(); ++i) {
    const SourceTensor& tensor = source->tensors()[i];
    names.push_back(tensor.name + " " + tensor.dtype + (tensor.usable ? "" : " unusable"));
    if (!tensor.usable || tensor.elements() == 0) continue;
    std::vector<double> values(6);
    source->read(i, 0, values);
    const double bits = tensor.name == "half" ? 0x1p-11 : tensor.name == "brain" ? 0x1p-8 : 0;
    for (size_t k = 0; k < values.size(); ++k) {
      const double wanted =
          tensor.name == "double" ? static_cast<double>(base[k]) / 3 : static_cast<double>(base[k]);
      EXPECT_LE(std::abs(values[k] - wanted), bits * std::abs(wanted)) << tensor.name << " " << k;
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"brain BF16", "count I64 unusable", "double F64",
                                             "empty F32", "half F16", "single F32"}));
}

}  // namespace
}  // namespace tessera
