// Runs with tests/tools/old_driver.cc's library, which is loaded before the system's.
#include <cstdlib>

#include <gtest/gtest.h>

#include "tessera/runtime/device.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

TEST(OldDriver, IsAVersionMismatchWhereAGpuIsAskedFor) {
  if (std::getenv("TESSERA_OLD_DRIVER") == nullptr) GTEST_SKIP() << "runs as tools.old_driver";
  EXPECT_TRUE(driver_mismatch());
  EXPECT_THROW(require_device({DeviceKind::gpu, 0}), VersionMismatch);
  EXPECT_NO_THROW(require_device({}));
  EXPECT_NE(why_no_gpu().find("CUDA 11.0"), std::string::npos) << why_no_gpu();
}

}  // namespace
}  // namespace tessera
