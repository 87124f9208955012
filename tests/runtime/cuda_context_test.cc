// The GPU's context: streams, events, memory, copies. Skipped if there is no GPU.
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

const Device kGpu{DeviceKind::gpu, 0};

class CudaContextTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(CudaContextTest, BytesGoThereAndBack) {
  Context& ctx = context(kGpu);
  std::vector<int> values(100'000), back(values.size());
  std::iota(values.begin(), values.end(), 7);
  const size_t bytes = values.size() * sizeof(int);
  void *block = ctx.memory().allocate(bytes), *second = ctx.memory().allocate(bytes);
  EXPECT_EQ(ctx.memory().alignment(), 256u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 256, 0u);
  ctx.copy_from_host(block, values.data(), bytes);
  ctx.copy_within(second, block, bytes);
  ctx.copy_to_host(back.data(), second, bytes);
  ctx.memory().release(block, bytes);
  ctx.memory().release(second, bytes);
  EXPECT_EQ(back, values);
}

TEST_F(CudaContextTest, MemoryIsCountedAndRefusedByName) {
  RawMemory& memory = context(kGpu).memory();
  EXPECT_EQ(memory.name(), "gpu:0");
  const RawMemoryStatistics before = memory.statistics();
  void* block = memory.allocate(1 << 20);
  EXPECT_EQ(memory.statistics().live_bytes, before.live_bytes + (1 << 20));
  memory.release(block, 1 << 20);
  EXPECT_EQ(memory.statistics().live_bytes, before.live_bytes);
  EXPECT_THROW(memory.allocate(size_t{1} << 50), OutOfMemory);
  // A failed allocation leaves no error for later calls.
  memory.release(memory.allocate(64), 64);
}

TEST_F(CudaContextTest, EventsOrderStreams) {
  Context& ctx = context(kGpu);
  std::unique_ptr<Stream> other = ctx.make_stream();
  std::unique_ptr<Event> event = ctx.stream().make_event();
  EXPECT_TRUE(event->done());
  ctx.stream().record(*event);
  other->wait(*event);
  other->synchronize();
  EXPECT_TRUE(event->done());
  std::unique_ptr<Event> of_the_cpu = make_cpu_stream()->make_event();
  EXPECT_THROW(other->record(*of_the_cpu), InternalError);
}

}  // namespace
}  // namespace tessera
