#include "tessera/runtime/raw_memory.h"

#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(RawMemory, GivesAlignedBlocksThatCanBeWritten) {
  RawMemory& memory = cpu_memory();
  const size_t live = memory.statistics().live_bytes;
  for (size_t bytes : {size_t{1}, size_t{63}, size_t{65}, size_t{4097}, (size_t{1} << 20) - 1,
                       size_t{1} << 20, (size_t{5} << 20) + 3}) {
    void* block = memory.allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kMemoryAlignment, 0u);
    std::memset(block, 0xab, bytes);
    EXPECT_EQ(memory.statistics().live_bytes, live + bytes);
    memory.release(block, bytes);
  }
  EXPECT_EQ(memory.statistics().live_bytes, live);
}

TEST(RawMemory, CountsToTheByte) {
  LimitedMemory memory(cpu_memory(), RawMemory::kNoLimit);
  void* a = memory.allocate(1000);
  void* b = memory.allocate(24);
  memory.release(a, 1000);
  RawMemoryStatistics s = memory.statistics();
  EXPECT_EQ(s.live_bytes, 24u);
  EXPECT_EQ(s.peak_bytes, 1024u);
  EXPECT_EQ(s.total_bytes, 1024u);
  EXPECT_EQ(s.allocations, 2u);
  EXPECT_EQ(s.releases, 1u);
  memory.reset_peak();
  EXPECT_EQ(memory.statistics().peak_bytes, 24u);
  memory.release(b, 24);
  EXPECT_EQ(memory.allocate(0), nullptr);
  memory.release(nullptr, 0);
  EXPECT_EQ(memory.statistics().allocations, 2u);
}

TEST(RawMemory, ALimitHoldsAndTheErrorNamesTheBytes) {
  LimitedMemory memory(cpu_memory(), 1000);
  void* a = memory.allocate(600);
  try {
    memory.allocate(401);
    FAIL() << "the limit must hold";
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    EXPECT_NE(
        text.find("cpu:0: out of memory: 401 bytes requested, 600 in use under a limit of 1000"),
        std::string::npos)
        << text;
    EXPECT_EQ(error.exit_code(), 4);
  }
  EXPECT_EQ(memory.statistics().failures, 1u);
  void* b = memory.allocate(400);  // still usable
  memory.release(a, 600);
  memory.release(b, 400);
  EXPECT_THROW(memory.allocate(SIZE_MAX), OutOfMemory);
}

TEST(RawMemory, RefusesWhatTheMachineDoesNotHave) {
  EXPECT_THROW(cpu_memory().allocate(size_t{1} << 60), OutOfMemory);
}

TEST(RawMemory, CountsFromSeveralThreads) {
  LimitedMemory memory(cpu_memory(), 1 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memory, t] {
      for (int i = 0; i < 500; ++i) memory.release(memory.allocate(100 + t), 100 + t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory.statistics().live_bytes, 0u);
  EXPECT_EQ(memory.statistics().allocations, 2000u);
  EXPECT_EQ(memory.statistics().releases, 2000u);
}

}  // namespace
}  // namespace tessera
