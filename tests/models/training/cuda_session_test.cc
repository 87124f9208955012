// Sessions on a GPU: the memory that they allocate, on the whole GPU and on parts of it. They do
// not change the caller's current device.
#include <memory>

#include "tessera/models/study/profile.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/training_setup.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/models/run/checkpoint_fixture.h"

namespace tessera {
namespace {

class CudaSession : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!IsSkipped()) configure_devices({});
  }
  void TearDown() override {
    if (!IsSkipped()) configure_devices({});
  }

  static Config config_of(const std::string& model, const std::string& device, int64_t batch = 4) {
    Config config;
    config.threads = 2;
    config.device = device;
    config.model.name = model;
    config.data.batch = batch;
    config.data.train_count = 2 * batch + batch / 2;
    config.data.test_count = batch;
    return config;
  }
  static std::unique_ptr<Session> prepared(const Config& config) {
    return prepared_session(config);
  }
  static size_t bytes_of(const Session& session) {
    size_t bytes = 0;
    for (const MemoryItem& region : session.gpu_regions()) bytes += region.bytes;
    return bytes;
  }
  static size_t live(Device device) { return context(device).memory().statistics().live_bytes; }

  // Returns the loss of the third step on equal images.
  static double third_loss(Session& session, int64_t batch) {
    CompiledStep& step = session.train_step(batch);
    Tensor(step.input(1))
        .assign(std::span<const int32_t>(std::vector<int32_t>(static_cast<size_t>(batch), 1)));
    const auto pixels = static_cast<size_t>(step.input(0).elements());
    Tensor(step.input(0)).assign(std::span<const uint8_t>(std::vector<uint8_t>(pixels, 70)));
    Tensor(step.input(2)).assign_scalar(0.01);
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t position[2] = {i, i * batch};
      Tensor(step.input(3)).assign(std::span<const int64_t>(position));
      step.run();
    }
    return step.output(0).item<double>();
  }
};

TEST_F(CudaSession, SessionsMayEndInAnyOrder) {
  auto first = prepared(config_of("lenet5", "gpu:0")),
       second = prepared(config_of("lenet5", "cpu"));
  EXPECT_EQ(current_device(), Device{});
  EXPECT_EQ(first->store().parameters().front().device(), parse_device("gpu:0"));
  EXPECT_EQ(second->store().parameters().front().device(), Device{});
  first.reset();
  EXPECT_EQ(current_device(), Device{});
  second.reset();
  EXPECT_EQ(current_device(), Device{});
}

// GPU memory is measured by the engine's count and by the GPU's own report.
TEST_F(CudaSession, WhatIsAskedOfTheGpuIsWhatIsPlannedToTheByte) {
  const Device gpu = parse_device("gpu:0");
  RawMemory& memory = context(gpu).memory();
  for (const char* model : {"lenet5", "cnn_bn", "resnet20"}) {
    const size_t before = live(gpu);
    const auto session = prepared(config_of(model, "gpu:0"));
    EXPECT_EQ(live(gpu), before) << model << ": before anything is taken";
    std::vector<std::string> names;
    for (const MemoryItem& region : session->gpu_regions()) names.push_back(region.name);
    EXPECT_EQ(names, (std::vector<std::string>{"persistent", "arena", "slots", "slots", "slots"}));
    const size_t free = memory.available();
    session->bind();
    EXPECT_EQ(live(gpu) - before, bytes_of(*session)) << model;
    // A GPU takes 2 MiB at a time, and a block may fit into what an earlier one left of them.
    EXPECT_GE(free - memory.available() + names.size() * (size_t{2} << 20), bytes_of(*session))
        << model;

    const uint64_t calls = memory.statistics().allocations;
    EXPECT_TRUE(std::isfinite(third_loss(*session, 4)));
    EXPECT_TRUE(std::isfinite(third_loss(*session, 2)));
    session->evaluation_step(4).run();
    EXPECT_EQ(live(gpu) - before, bytes_of(*session)) << model << ", after steps";
    EXPECT_EQ(memory.statistics().allocations, calls) << model;
  }
}

// Batches, arguments, results and checkpoints are in pinned (page-locked) memory.
TEST_F(CudaSession, WhatATrainingTakesOfTheHostIsWhatIsPlannedToTheByte) {
  const testing_checkpoint::TemporaryFolder folder;
  Config config = config_of("cnn_bn", "gpu:0");
  config.data.name = "synthetic";
  config.data.image_size = 16;
  config.run.dir = folder.path("run");
  std::vector<MemoryItem> planned = memory_need(config).blocks;
  // This buffer exists only while weights.safetensors is written.
  EXPECT_EQ(std::erase_if(planned, [](const MemoryItem& b) { return b.name == "weights"; }), 1u);
  RawMemory& staging = context(parse_device("gpu:0")).staging_memory();
  const size_t before = staging.statistics().live_bytes;
  const TrainingSetup setup = set_up_training(config, [](const std::string&) {}, {});
  EXPECT_EQ(total_bytes(setup.blocks()), total_bytes(planned));
  size_t staged = 0;
  for (const MemoryItem& block : setup.blocks())
    for (const char* name : {"arguments and results", ": batches", "checkpoint"})
      if (block.name.ends_with(name)) staged += block.bytes;
  EXPECT_GT(staged, 0u);
  EXPECT_EQ(staging.statistics().live_bytes - before, staged);
}

// Refuses a training before it allocates anything, even if it is only compiled to be checked.
TEST_F(CudaSession, TheLimitOfTheGpuIsKeptToTheByte) {
  Config config = config_of("lenet5", "gpu:0");
  const auto bytes = static_cast<int64_t>(bytes_of(*prepared(config)));
  config.memory.gpu_limit = ByteSize{bytes};
  EXPECT_NO_THROW(require_fit_ahead(config));
  const auto refusal = [](const Config& over) {
    try {
      require_fit_ahead(over);
    } catch (const PlanInfeasible& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  Config larger = config;
  larger.data.batch = 5;
  const std::string text = refusal(larger);
  EXPECT_NE(text.find("memory.gpu_limit"), text.npos) << text;
  EXPECT_NE(text.find("data.batch=4"), text.npos) << text;
  config.memory.gpu_limit = ByteSize{bytes - 1};
  EXPECT_NE(refusal(config).find("over by 1 B"), text.npos) << refusal(config);
  EXPECT_THROW(require_fit(config), PlanInfeasible);
  EXPECT_EQ(live(parse_device("gpu:0")), 0u);
}

TEST_F(CudaSession, EachPartOfAGpuHasItsOwn) {
  double whole = 0;
  size_t bytes = 0;
  {
    const auto session = prepared(config_of("cnn_bn", "gpu:0"));
    session->bind();
    bytes = bytes_of(*session);
    whole = third_loss(*session, 4);
  }
  configure_devices({{"gpu:0", 2, bytes}});
  const auto first = prepared(config_of("cnn_bn", "gpu:0")),
             second = prepared(config_of("cnn_bn", "gpu:1"));
  auto large = prepared(config_of("cnn_bn", "gpu:1", 8));
  first->bind();
  EXPECT_EQ(live(parse_device("gpu:0")), bytes);
  EXPECT_THROW(large->bind(), OutOfMemory);
  large.reset();
  second->bind();  // the refusal did not affect it
  EXPECT_EQ(live(parse_device("gpu:1")), bytes);
  EXPECT_EQ(third_loss(*second, 4), whole);
  EXPECT_EQ(third_loss(*first, 4), whole);
}

TEST_F(CudaSession, APartTakesAsManySessionsAsFit) {
  const size_t bytes = bytes_of(*prepared(config_of("lenet5", "gpu:0")));
  configure_devices({{"gpu:0", 2, 3 * bytes}});
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 4; ++i) sessions.push_back(prepared(config_of("lenet5", "gpu:1")));
  for (size_t i = 0; i < 3; ++i) sessions[i]->bind();
  EXPECT_EQ(live(parse_device("gpu:1")), 3 * bytes);
  try {
    sessions[3]->bind();
    FAIL();
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("gpu:1"), text.npos) << text;
  }
  const double loss = third_loss(*sessions[0], 4);
  for (size_t i = 1; i < 3; ++i) EXPECT_EQ(third_loss(*sessions[i], 4), loss);
}

TEST_F(CudaSession, AProfileComparesWithThePeaksOfTheGpu) {
  const Profile found = profile(config_of("lenet5", "gpu:0"), {.steps = 1, .warmup = 0});
  EXPECT_GT(found.peaks.gflops, 0);
  EXPECT_GT(found.peaks.bf16_gflops, 0);
  EXPECT_GT(found.peaks.copy_gbytes, 0);
  const std::string text = found.report().text();
  EXPECT_NE(text.find("peak "), text.npos) << text;
  EXPECT_EQ(text.find("of one thread"), text.npos) << text;
  EXPECT_EQ(text.find("estimated"), text.npos) << text;  // memory.cost_model is of CPUs
}

}  // namespace
}  // namespace tessera
