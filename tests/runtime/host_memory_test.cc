#include "tessera/runtime/host_memory.h"

#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace tessera {
namespace {

TEST(HostMemory, GrowsByWhatIsTouched) {
  constexpr size_t kBytes = size_t{64} << 20;
  const HostMemory before = host_memory();
  EXPECT_GT(before.process, 0);
  EXPECT_GT(before.process_most, before.process);
  EXPECT_GT(before.free, 0);
  EXPECT_GT(before.total, before.free);
  void* block = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  const HostMemory asked = host_memory();
  std::memset(block, 1, kBytes);
  const HostMemory touched = host_memory();
  munmap(block, kBytes);
  constexpr int64_t kSlack = int64_t{8} << 20;
  EXPECT_LT(asked.process - before.process, kSlack);
  EXPECT_GE(touched.process - asked.process, static_cast<int64_t>(kBytes));
  EXPECT_GE(touched.process_most, touched.process);
  EXPECT_LT(host_memory().process - before.process, kSlack);
}

}  // namespace
}  // namespace tessera
