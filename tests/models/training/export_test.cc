// Export of a run folder's network for other programs.
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/storage.h"
#include "tessera/models/run/pretrained.h"
#include "tessera/models/run/trained_network.h"
#include "tessera/models/training/trainer.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

using testing_checkpoint::TemporaryFolder;

// Trains with flatten, whose columns are permuted, and batch norm, whose tensors are renamed.
Config trained_in(const TemporaryFolder& folder) {
  Config config = parse_config(R"(
model: {classes: 10, layers: [{conv: {filters: 3, kernel: 3, stride: 4}}, batch_norm, relu, flatten,
                              {linear: {units: 6}}, relu, {linear: {units: 10}}]}
data: {name: synthetic, batch: 16, train_count: 48, test_count: 16}
train: {steps: 3}
)",
                               "a.yaml", {"run.dir=" + folder.path("run")});
  train(config, [](const std::string&) {}, {});
  return config;
}

TEST(Export, OurOwnNetworksComeBackWithTheSameBits) {
  const TemporaryFolder folder;
  Config config = trained_in(folder);
  for (const char* checkpoint : {"", "latest"}) {
    const auto trained = trained_network({config.run.dir, checkpoint});
    const std::string path = folder.path("model.safetensors");
    EXPECT_EQ(export_safetensors(*trained, path), "our own");
    const auto source = open_weight_source(path);
    std::vector<std::string> names;
    for (const SourceTensor& tensor : source->tensors()) names.push_back(tensor.name);
    EXPECT_EQ(names, (std::vector<std::string>{
                         "batch_norm1.bias", "batch_norm1.running_mean", "batch_norm1.running_var",
                         "batch_norm1.weight", "conv0.bias", "conv0.weight", "linear4.bias",
                         "linear4.weight", "linear6.bias", "linear6.weight"}));
    EXPECT_EQ(source->tensors()[5].shape, (std::vector<int64_t>{3, 3, 3, 3}));

    config.model.weights = path;
    const auto again = trained_network({config.run.dir, checkpoint});
    again->store.reset();
    Pretrained pretrained(path);
    pretrained.match(config, trained->image);
    pretrained.load(again->store);
    for (const Tensors* list : {&trained->store.parameters(), &trained->store.buffers()})
      for (const Tensor& tensor : *list) {
        const std::string& name = tensor.impl()->storage->name;
        EXPECT_EQ(again->store.find(name).to_vector<float>(), tensor.to_vector<float>()) << name;
      }
  }
}

TEST(Export, WhatIsMissingIsNamed) {
  const TemporaryFolder folder;
  EXPECT_THROW(trained_network({folder.path("nothing")}), ConfigError);
  const Config config = trained_in(folder);
  std::filesystem::remove(folder.path("run/weights.safetensors"));
  try {
    trained_network({config.run.dir});
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_NE(std::string(error.what()).find("--checkpoint=latest"), std::string::npos);
  }
  const auto trained = trained_network({config.run.dir, "latest"});
  EXPECT_THROW(export_safetensors(*trained, folder.path("no/folder/model.safetensors")),
               CheckpointError);
}

}  // namespace
}  // namespace tessera
