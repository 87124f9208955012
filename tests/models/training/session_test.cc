// A session runs the planned step and allocates the planned memory.
#include "tessera/models/training/session.h"

#include <map>

#include <gtest/gtest.h>

#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/models/data/loader.h"
#include "tessera/models/data/sets/synthetic.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera {
namespace {

using testing_zoo::small_options;
using testing_zoo::Threads;
using testing_zoo::ZooStep;

Config small_config(const std::string& model, const ModelOptions& options, int64_t batch) {
  Config config;
  config.threads = 2;
  config.model.name = model;
  config.model.classes = options.classes;
  config.data.batch = batch;
  config.optimizer.nesterov = true;
  config.optimizer.weight_decay = 1e-4;
  return config;
}

// tests/graph/plan_test.cc plans ZooStep; this test compares its plans with those of sessions.
TEST(Plan, SessionsRunTheStepThatIsPlannedHere) {
  const Threads threads(2);
  for (const std::string& model : model_names()) {
    const ModelOptions options = small_options(model);
    const auto channels = static_cast<size_t>(options.channels);
    Session session(small_config(model, options, 2), Device{},
                    {static_cast<int>(options.height), static_cast<int>(options.width),
                     static_cast<int>(options.channels)},
                    {std::vector<float>(channels, 0.5f), std::vector<float>(channels, 0.25f)});
    ZooStep step(model, options, 2);
    Compiled compiled(step.function(), {});
    const CompiledGraph& planned = *compiled.prepare(step.specs()).compiled_graph();
    EXPECT_EQ(session.train_step(2).compiled_graph()->graph.text(), planned.graph.text()) << model;
    EXPECT_EQ(session.arena_bytes(), planned.arena_bytes()) << model;
  }
}

// A float32 parameter must not make all that follows it float32.
TEST(Plan, ConvolutionsOfEveryNetworkReadSixteenBits) {
  for (const std::string& model : model_names()) {
    const ModelOptions options = small_options(model);
    const auto channels = static_cast<size_t>(options.channels);
    Config config = small_config(model, options, 2);
    config.precision = Precision::bf16;
    Session session(config, Device{},
                    {static_cast<int>(options.height), static_cast<int>(options.width),
                     static_cast<int>(options.channels)},
                    {std::vector<float>(channels, 0.5f), std::vector<float>(channels, 0.25f)});
    const Graph& graph = session.train_step(2).compiled_graph()->graph;
    for (const Node& node : graph.nodes) {
      if (node.op == nullptr || !node.op->name().starts_with("conv2d")) continue;
      EXPECT_EQ(graph.values[node.inputs[0]].spec.dtype, DType::bf16)
          << model << ": " << node.op->name() << " " << location_of(graph, node);
    }
  }
}

// Scratch of float32 copies included.
TEST(Plan, SixteenBitsNeedAboutHalfTheArena) {
  const auto arena = [](const char* model, Precision precision) {
    Config config = small_config(model, {}, 128);
    config.precision = precision;
    Session session(config, Device{}, {32, 32, 3},
                    {std::vector<float>(3, 0.5f), std::vector<float>(3, 0.25f)});
    return static_cast<double>(session.train_step(128).compiled_graph()->arena_bytes());
  };
  const auto share = [&](const char* model) {
    return arena(model, Precision::bf16) / arena(model, Precision::float32);
  };
  EXPECT_LE(share("resnet20"), 0.55);
  EXPECT_LE(share("resnet18_cifar"), 0.55);
}

// Compares, to the byte, the memory allocated while a session is made, run and evaluated. The order
// of a shuffled epoch is listed too, but it is in the heap.
void expect_planned_is_measured(const std::string& model) {
  const Config config = small_config(model, {}, 8);
  const size_t before = cpu_memory().statistics().live_bytes;
  LoaderOptions options{.batch = 8, .shuffle = true, .workers = 2};
  options.augment = {crop(4), flip_horizontal()};
  Loader loader(synthetic(5, SyntheticSplit::kTrain, 20), options);
  Session session(config, Device{}, loader.shape(), loader.dataset().normalization());
  for (int64_t batch : {8, 4}) {
    session.train_step(batch);
    session.evaluation_step(batch);
  }
  size_t listed = 0;
  std::map<std::string, int> names;
  for (const MemoryItem& region : session.regions()) {
    listed += region.bytes;
    ++names[region.name];
  }
  EXPECT_EQ(names, (std::map<std::string, int>{{"arena", 1}, {"persistent", 1}, {"slots", 4}}));
  for (const MemoryItem& buffer : loader.host_buffers())
    if (!buffer.name.ends_with(": order")) listed += buffer.bytes;
  session.bind();
  EXPECT_EQ(cpu_memory().statistics().live_bytes - before, listed) << model;

  const uint64_t calls = cpu_memory().statistics().allocations;
  for (int i = 0; i < 4; ++i) {
    const int64_t count = loader.next().count;
    for (CompiledStep* step : {&session.train_step(count), &session.evaluation_step(count)}) {
      Tensor labels = step->input(1);
      labels.assign(std::span<const int32_t>(std::vector<int32_t>(static_cast<size_t>(count), 1)));
      step->run();
    }
  }
  EXPECT_EQ(cpu_memory().statistics().live_bytes - before, listed) << model << ", after steps";
  EXPECT_EQ(cpu_memory().statistics().allocations, calls) << model;
}

TEST(Plan, WhatIsAskedOfTheMachineIsWhatIsPlannedToTheByte) {
  for (const char* model : {"mlp", "lenet5", "cnn_bn", "resnet20", "resnet18_cifar"})
    expect_planned_is_measured(model);
}

}  // namespace
}  // namespace tessera
