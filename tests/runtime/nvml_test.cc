// Runs with tests/tools/stand_in_nvml.cc's library: the state of a GPU is the driver's. Has not run
// on a real GPU.
#include <cstdlib>

#include <gtest/gtest.h>

#include "tessera/runtime/system_gpus.h"

namespace tessera {
namespace {

TEST(Nvml, TellsMemoryAndTheProcessesOfOthers) {
  if (std::getenv("TESSERA_STAND_IN_NVML") == nullptr) GTEST_SKIP() << "runs as tools.nvml";
  EXPECT_EQ(nvidia_driver_version(), "580.65.06");
  const auto state = gpu_state("0000:3B:00.0");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->total, int64_t{80} << 30);
  EXPECT_EQ(state->free, int64_t{71} << 30);
  ASSERT_EQ(state->processes.size(), 2u);
  EXPECT_EQ(state->processes[0].pid, 1);
  EXPECT_EQ(state->processes[0].bytes, int64_t{5} << 30);
  EXPECT_FALSE(state->processes[0].name.empty());
  EXPECT_EQ(state->processes[1].pid, 4000000000);
  EXPECT_EQ(state->processes[1].bytes, -1);
  EXPECT_FALSE(gpu_state("0000:00:00.0"));
}

TEST(Nvml, NothingIsToldWhereThereIsNoDriver) {
  if (std::getenv("TESSERA_STAND_IN_NVML") != nullptr) GTEST_SKIP() << "has a driver";
  if (!nvidia_driver_version().empty()) GTEST_SKIP() << "this machine has one";
  EXPECT_FALSE(gpu_state("0000:3B:00.0"));
}

}  // namespace
}  // namespace tessera
