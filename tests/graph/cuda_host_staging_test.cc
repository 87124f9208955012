// Steps that run ahead of the host: the values of steps that do not, in every schedule of the GPU;
// few calls; and copies, compute and host that overlap in simulated time.
#include <cstring>
#include <deque>
#include <memory>

#include "tessera/engine/pointwise.h"
#include "tessera/engine/store.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/layers/ops/activation.h"
#include "tessera/layers/ops/image_normalize.h"
#include "tessera/layers/ops/matmul.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/memory/regions.h"
#include "tessera/runtime/error.h"
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/engine/gpu_double.h"
#include "tessera/tests/engine/gpu_schedule.h"

namespace tessera {
namespace {

constexpr Device kGpu{DeviceKind::gpu, 0};

// Learns a parameter from images and a small argument; `layers` products make a run long.
class Learner {
 public:
  Learner(Device device, int64_t side, int layers, bool cuda_graph = true)
      : device_(device), store_(1), side_(side) {
    const DeviceScope scope(device);
    weight_ = store_.parameter("weight", {16, 16}, Initializer::normal(0.2));
    optimizer_ = std::make_unique<Sgd>(store_, store_.parameters(), SgdParams{.momentum = 0.9});
    CompileOptions options;
    options.cuda_graph = cuda_graph;
    compiled_ = std::make_unique<Compiled>(
        [this, layers](const Tensors& in) { return step(in, layers); }, options);
  }

  CompiledStep& prepared(int64_t count) {
    const DeviceScope scope(device_);
    return compiled_->prepare({{DType::u8, {count, side_, side_, 1}, device_},
                               {DType::f64, {}, device_},
                               {DType::f32, {16}, device_}});
  }
  void drop_steps() { compiled_.reset(); }
  std::vector<float> weight() const { return weight_.to_vector<float>(); }

 private:
  Tensors step(const Tensors& in, int layers) {
    const Tensor x = image_normalize(in[0], {{0.5f}, {0.25f}});
    const Tensor seen = mean(x, {1, 2, 3});
    Tensor y = reshape(in[2] * mean(seen), {1, 16});
    for (int i = 0; i < layers; ++i) y = tanh(matmul(y, weight_));
    const Tensor loss = sum(y * y);
    optimizer_->step(gradients(loss, store_.parameters()), in[1]);
    return {loss, seen};
  }

  const Device device_;
  Store store_;
  const int64_t side_;
  Tensor weight_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Compiled> compiled_;
};

// Fills in the images and small arguments of run k.
class Feed {
 public:
  Feed(Device device, int64_t count, int64_t side)
      : bytes_(static_cast<size_t>(count * side * side)),
        region_("images", kSlots * bytes_, context(device).staging_memory()) {}

  void fill(CompiledStep& step, int k) {
    auto* images = reinterpret_cast<unsigned char*>(region_.data()) + k % kSlots * bytes_;
    const auto count = static_cast<size_t>(step.signature().arguments[0].bytes());
    std::memset(images, 7 * k + 3, count);
    images[k % count] = 255;
    step.stage_input(0, images);
    std::vector<float> row(16);
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>((i * 7 + k) % 5) - 2;
    Tensor(step.host_input(1)).assign_scalar(0.01 * (k + 1));
    Tensor(step.host_input(2)).assign(std::span<const float>(row));
  }

 private:
  static constexpr int kSlots = 2;  // one is being filled, one may still be copied
  const size_t bytes_;
  Region region_;
};

// Returns both results of nine runs, two of them with another batch, and the weight.
std::vector<std::vector<float>> values_of(Device device, bool cuda_graph = true) {
  Learner learner(device, 24, 3, cuda_graph);
  Feed feed(device, 8, 24);
  std::vector<std::vector<float>> values;
  std::deque<CompiledStep*> ahead;
  const auto collect = [&] {
    ahead.front()->collect();
    values.push_back(ahead.front()->host_output(0).to_vector<float>());
    values.push_back(ahead.front()->host_output(1).to_vector<float>());
    ahead.pop_front();
  };
  for (int k = 0; k < 9; ++k) {
    CompiledStep& step = learner.prepared(k % 4 == 3 ? 5 : 8);
    feed.fill(step, k);
    step.submit();
    ahead.push_back(&step);
    if (ahead.size() > static_cast<size_t>(step.max_runs_ahead())) collect();
  }
  while (!ahead.empty()) collect();
  values.push_back(learner.weight());
  return values;
}

class CudaHostStaging : public OnGpu {};

TEST_F(CudaHostStaging, ValuesAreThoseOfTheCpuAndTheSameBitsInEverySchedule) {
  const auto right = values_of(Device{});
  const auto first = values_of(kGpu, false);
  ASSERT_EQ(first.size(), right.size());
  for (size_t r = 0; r < right.size(); ++r)
    for (size_t i = 0; i < right[r].size(); ++i)
      EXPECT_NEAR(first[r][i], right[r][i], 1e-5 * (1 + std::abs(right[r][i]))) << r;
  for (const std::string& schedule : GpuSchedule::all()) {
    const GpuSchedule now(schedule);
    EXPECT_EQ(values_of(kGpu), first) << schedule;
  }
}

TEST_F(CudaHostStaging, TheLargestArgumentMayBeWrittenToItsTwin) {
  Learner brought(kGpu, 24, 1), written(kGpu, 24, 1);
  Feed feed(kGpu, 8, 24);
  for (Learner* learner : {&brought, &written}) {
    CompiledStep& step = learner->prepared(8);
    EXPECT_EQ(step.max_runs_ahead(), 1);
    for (int k = 0; k < 3; ++k) {
      feed.fill(step, k);
      if (learner == &written) {
        std::vector<uint8_t> images(8 * 24 * 24, static_cast<uint8_t>(7 * k + 3));
        images[static_cast<size_t>(k)] = 255;
        Tensor(step.host_input(0)).assign(std::span<const uint8_t>(images));
      }
      step.submit();
      step.collect();
    }
  }
  EXPECT_EQ(brought.weight(), written.weight());
}

// The last op reads the images, so their slot is free only when the run is over.
TEST_F(CudaHostStaging, TheImagesMayBeReadLast) {
  const auto run = [] {
    Compiled compiled(
        [](const Tensors& in) {
          Tensor small = in[1];
          for (int i = 0; i < 3; ++i) small = tanh(small);
          return Tensors{small, image_normalize(in[0], {{0}, {1}})};
        },
        {});
    const DeviceScope scope(kGpu);
    CompiledStep& step =
        compiled.prepare({{DType::u8, {1, 80, 80, 1}, kGpu}, {DType::f32, {4}, kGpu}});
    EXPECT_EQ(step.compiled_graph()->graph.nodes.back().op->name(), "image_normalize");
    Region images("images", 2 * 6400, context(kGpu).staging_memory());
    std::vector<std::vector<float>> seen;
    for (int k = 0; k < 5; ++k) {
      std::byte* const image = images.data() + k % 2 * 6400;
      std::memset(image, 10 * k, 6400);
      step.stage_input(0, image);
      Tensor(step.host_input(1)).assign(std::span<const float>(std::vector<float>(4, 0.1f)));
      step.submit();
      if (k == 0) continue;
      step.collect();
      seen.push_back(step.host_output(1).to_vector<float>());
    }
    step.collect();
    for (size_t k = 0; k < seen.size(); ++k)
      EXPECT_EQ(seen[k], std::vector<float>(6400, static_cast<float>(10 * k) / 255)) << k;
  };
  for (const std::string& schedule : GpuSchedule::all()) {
    const GpuSchedule now(schedule);
    run();
  }
}

// A run that is in flight when its step ends still writes to its staging buffers.
TEST_F(CudaHostStaging, AStepMayEndWhileItRuns) {
  const GpuSchedule lazy("lazy");
  for (int runs = 1; runs <= 2; ++runs) {
    std::vector<float> right;
    {
      Learner learner(kGpu, 24, 1);
      Feed feed(kGpu, 8, 24);
      for (int k = 0; k < runs; ++k) {
        feed.fill(learner.prepared(8), k);
        learner.prepared(8).submit();
      }
      learner.drop_steps();
      right = learner.weight();
    }
    Learner waits(kGpu, 24, 1);
    Feed feed(kGpu, 8, 24);
    for (int k = 0; k < runs; ++k) {
      feed.fill(waits.prepared(8), k);
      waits.prepared(8).submit();
      waits.prepared(8).collect();
    }
    EXPECT_EQ(waits.weight(), right);
  }
}

// --sync: the host waits after each op, so an error is reported at the op that failed.
TEST_F(CudaHostStaging, SynchronousStepsWaitAfterEachOp) {
  const GpuDouble gpu;
  if (!gpu.here()) GTEST_SKIP() << "a real GPU does not count its calls";
  const SettingsScope synchronous({.gpu = {.synchronous = true}});
  const auto waits_of = [&](auto&& work) {
    const long waits = gpu.counts().waits;
    work();
    return gpu.counts().waits - waits;
  };
  Learner learner(kGpu, 24, 2);
  CompiledStep& step = learner.prepared(8);
  step.bind();
  long ops = 0;
  for (const Node& node : step.compiled_graph()->graph.nodes) ops += node.op->view_of(0) < 0;
  for (int k = 0; k < 3; ++k) EXPECT_EQ(waits_of([&] { step.run(); }), ops);
  const DeviceScope scope(kGpu);
  const Tensor x = ones({8});
  EXPECT_EQ(waits_of([&] { tanh(x); }), 1);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_F(CudaHostStaging, WrongOrderIsAnError) {
  Learner learner(kGpu, 24, 1);
  Feed feed(kGpu, 8, 24);
  CompiledStep& step = learner.prepared(8);
  EXPECT_NE(error_of([&] { step.collect(); }).find("no run is submitted"), std::string::npos);
  EXPECT_NE(error_of([&] { step.host_output(0); }).find("no run has been collected"),
            std::string::npos);
  EXPECT_NE(error_of([&] { step.submit(); }).find("largest argument"), std::string::npos);
  for (int k = 0; k < 2; ++k) {
    feed.fill(step, k);
    step.submit();
  }
  EXPECT_NE(error_of([&] { step.submit(); }).find("collect() the first"), std::string::npos);
  EXPECT_NE(error_of([&] { step.host_input(1); }).find("collect() the first"), std::string::npos);
  EXPECT_NE(error_of([&] { step.submit(); }).find("two runs are submitted"), std::string::npos);
  step.collect();
  step.collect();
  EXPECT_NE(error_of([&] { step.collect(); }).find("no run is submitted"), std::string::npos);
}

// On the CPU the staging buffers are the slots, and results are ready when submit() returns.
TEST_F(CudaHostStaging, OnTheCpuTheyAreTheSlots) {
  Learner learner(Device{}, 24, 1);
  CompiledStep& step = learner.prepared(8);
  EXPECT_EQ(step.max_runs_ahead(), 0);
  EXPECT_EQ(step.staging_bytes(), 0u);
  EXPECT_EQ(step.host_input(1).impl(), step.input(1).impl());
  EXPECT_EQ(step.host_output(0).impl(), step.output(0).impl());
}

// Pinned host memory is allocated once, in the size that the step reports.
TEST_F(CudaHostStaging, ArePageLockedMemoryOfTheBytesThatTheStepSays) {
  RawMemory& staging = context(kGpu).staging_memory();
  const size_t before = staging.statistics().live_bytes;
  {
    Learner learner(kGpu, 24, 1);
    CompiledStep& step = learner.prepared(8);
    step.bind();
    EXPECT_GT(step.staging_bytes(), 0u);
    EXPECT_EQ(staging.statistics().live_bytes - before, step.staging_bytes());
    Feed feed(kGpu, 8, 24);
    const uint64_t calls = staging.statistics().allocations;
    for (int k = 0; k < 3; ++k) {
      feed.fill(step, k);
      step.submit();
      step.collect();
    }
    EXPECT_EQ(staging.statistics().allocations, calls);
  }
  EXPECT_EQ(staging.statistics().live_bytes, before);
}

// Searches the collected run, although the next one has overwritten its slots.
TEST_F(CudaHostStaging, TheSearchForWhatIsNotFiniteSeesTheRunThatWasCollected) {
  const GpuSchedule lazy("lazy");
  Learner learner(kGpu, 24, 1);
  Feed feed(kGpu, 8, 24);
  CompiledStep& step = learner.prepared(8);
  feed.fill(step, 0);
  std::vector<float> row(16, 1.f);
  row[5] = std::numeric_limits<float>::infinity();
  Tensor(step.host_input(2)).assign(std::span<const float>(row));
  step.submit();
  feed.fill(step, 1);
  step.submit();
  step.collect();
  const auto found = step.find_non_finite();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->node, -1) << "it was in the argument";
  EXPECT_EQ(found->element, 5);
  step.collect();
  EXPECT_FALSE(step.find_non_finite());
}

// Counts the calls of all runs from the third on; the second is captured.
TEST_F(CudaHostStaging, ARunIsOneLaunchThreeCopiesAndOneWait) {
  const GpuDouble gpu;
  if (!gpu.here()) GTEST_SKIP() << "a real GPU does not count its calls";
  Learner learner(kGpu, 24, 3);
  Feed feed(kGpu, 8, 24);
  CompiledStep& step = learner.prepared(8);
  cuda_double_counts before{};
  for (int k = 0; k < 1000; ++k) {
    if (k >= 2) before = gpu.counts();
    feed.fill(step, k);
    step.submit();
    if (k > 0) step.collect();
    if (k < 2) continue;
    const cuda_double_counts now = gpu.counts();
    EXPECT_EQ(now.allocations + now.pinned_allocations + now.frees,
              before.allocations + before.pinned_allocations + before.frees);
    EXPECT_EQ(now.graph_launches - before.graph_launches, 1);
    EXPECT_EQ(now.kernels - before.kernels, 0) << "besides those of the graph";
    EXPECT_LE(now.copies - before.copies, 3);
    EXPECT_LE(now.waits - before.waits, 1);
    if (HasFailure()) FAIL() << "in run " << k;
  }
  step.collect();
}

struct Pace {
  double interval, compute, copy;  // simulated seconds per run
  double reads = 0;                // part of compute: the kernel that reads the images
  int beside = 0;                  // runs whose image copy began before the previous run ended
};

// Measures runs 6 to 25, whose batches come every `loader` seconds.
Pace pace(int64_t side, int layers, double loader) {
  constexpr int kFirst = 6, kRuns = 26;
  const GpuDouble gpu;
  Learner learner(kGpu, side, layers);
  Feed feed(kGpu, 8, side);
  CompiledStep& step = learner.prepared(8);
  const size_t bytes = step.signature().arguments[0].bytes();
  const double start = gpu.now();
  double begin = 0, end = 0;
  for (int k = 0; k < kRuns; ++k) {
    gpu.pass(std::max(0.0, start + k * loader - gpu.now()));
    feed.fill(step, k);
    step.submit();
    if (k > 0) step.collect();
    if (k == kFirst) begin = gpu.now(), gpu.forget_done();
    end = gpu.now();
  }
  const std::vector<cuda_double_done> all = gpu.done();
  step.collect();
  Pace pace{(end - begin) / (kRuns - 1 - kFirst), 0, static_cast<double>(bytes) / 25e9};
  std::vector<double> copied, ended;
  for (const cuda_double_done& one : all) {
    const bool copy_in = std::strcmp(one.name, "copy in") == 0;
    const bool copy_out = std::strcmp(one.name, "copy out") == 0;
    if (copy_in && one.end - one.start > 0.9 * pace.copy) copied.push_back(one.start);
    if (copy_out) ended.push_back(one.end);
    if (copy_in || copy_out) continue;
    pace.compute += one.end - one.start;
    if (std::strstr(one.name, "normal")) pace.reads += one.end - one.start;
  }
  pace.compute /= kRuns - 1 - kFirst;
  pace.reads /= kRuns - 1 - kFirst;
  // The images of the first observed run were copied earlier, unless the run waited for them.
  for (size_t i = 0; i < std::min(copied.size(), ended.size()); ++i)
    pace.beside += copied[copied.size() - 1 - i] < ended[ended.size() - 1 - i];
  return pace;
}

class CudaPace : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!IsSkipped() && !GpuDouble().here()) GTEST_SKIP() << "of simulated time";
  }
};

TEST_F(CudaPace, IsTheGpusWhereThatIsTheSlowest) {
  const GpuSchedule lazy("lazy");
  const Pace found = pace(64, 120, 0);
  EXPECT_GT(found.compute, 2 * found.copy);
  EXPECT_LE(found.interval, 1.02 * found.compute) << found.compute << ", copy " << found.copy;
  EXPECT_GE(found.beside, 18);
}

// The interval includes the kernel between the copies: there is one slot for the images.
TEST_F(CudaPace, IsTheCopysWhereThatIsTheSlowest) {
  const GpuSchedule lazy("lazy");
  const Pace found = pace(640, 1, 0);
  EXPECT_GT(found.copy, 1.5 * found.compute);
  EXPECT_GT(found.reads, 0);
  EXPECT_LE(found.interval, 1.02 * (found.copy + found.reads)) << found.compute;
}

TEST_F(CudaPace, IsTheLoadersWhereThatIsTheSlowest) {
  const GpuSchedule lazy("lazy");
  const Pace found = pace(64, 20, 2e-3);
  EXPECT_GT(2e-3, 2 * found.compute);
  EXPECT_LE(found.interval, 1.02 * 2e-3) << found.compute;
}

}  // namespace
}  // namespace tessera
