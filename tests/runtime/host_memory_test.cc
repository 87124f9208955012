#include "tessera/runtime/host_memory.h"

#include <cstring>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>

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

TEST(HostMemory, FreeIsNoMoreThanALimitOfTheProcessLeaves) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const HostMemory unlimited = host_memory();
  EXPECT_LE(unlimited.free, unlimited.total);
  rlimit tight = before;
  tight.rlim_cur = rlim_t{4} << 40;  // sanitizers map much memory
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  EXPECT_LE(host_memory().free, unlimited.total);
  tight.rlim_cur = 0;  // less than is mapped already, so nothing is free
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  rlimit now{};
  getrlimit(RLIMIT_AS, &now);
  if (now.rlim_cur != 0) GTEST_SKIP() << "qemu leaves the limit of addresses as it is";
  const int64_t none = host_memory().free;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(none, 0);
}

TEST(HostMemory, LibrariesAreApart) {
  const HostMemory memory = host_memory();
  EXPECT_GE(memory.swapped, 0);
  EXPECT_LE(memory.swapped, memory.swap_total - memory.swap_free);
  EXPECT_GT(memory.libraries, 1 << 20);
  EXPECT_LT(memory.libraries, memory.process_most);
  EXPECT_GE(memory.swap_total, memory.swap_free);
}

}  // namespace
}  // namespace tessera
