#include "tessera/runtime/stream.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

// The CPU does its work before the call returns, so there is never anything to wait for.
TEST(Stream, OfTheCpuIsAlwaysIdle) {
  Context& ctx = context(Device{});
  std::unique_ptr<Stream> other = ctx.make_stream();
  std::unique_ptr<Event> event = ctx.stream().make_event();
  EXPECT_TRUE(event->done());
  ctx.stream().record(*event);
  EXPECT_TRUE(event->done());
  other->wait(*event);
  event->synchronize();
  other->synchronize();
  ctx.synchronize();
}

TEST(Context, OfTheCpuCopiesBytes) {
  Context& ctx = context(Device{});
  EXPECT_EQ(ctx.device(), Device{});
  EXPECT_EQ(ctx.memory().name(), "cpu:0");
  char here[4] = "abc", there[4] = "", back[4] = "";
  ctx.copy_from_host(there, here, sizeof here);
  ctx.copy_to_host(back, there, sizeof back);
  EXPECT_STREQ(back, "abc");
  ctx.copy_to_host(nullptr, nullptr, 0);
  ctx.copy_within(back + 1, back, 2);
  EXPECT_STREQ(back, "aab");
}

// A GPU is listed, or there is a reason why none is: exactly one of the two.
TEST(Device, AGpuIsListedOrItsAbsenceExplained) {
  std::vector<DeviceInfo> devices = physical_devices();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0].device, Device{});
  EXPECT_GT(devices[0].memory_bytes, 0);
  EXPECT_EQ(devices.size() > 1, why_no_gpu().empty()) << why_no_gpu();
}

TEST(Device, ScopeOnAGpuThatIsNotThereSaysWhy) {
  if (why_no_gpu().empty()) GTEST_SKIP() << "this machine has a GPU";
  try {
    DeviceScope scope("gpu:0");
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("gpu:0 does not exist"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find(why_no_gpu()), std::string::npos) << error.what();
  }
  EXPECT_EQ(current_device(), Device{});
  EXPECT_THROW(context({DeviceKind::gpu, 0}), DeviceError);
}

}  // namespace
}  // namespace tessera
