// A session on a GPU leaves the device of its caller alone. Skips itself where there is no GPU.
#include <memory>

#include <gtest/gtest.h>

#include "tessera/models/training/session.h"

namespace tessera {
namespace {

TEST(CudaSession, SessionsMayEndInAnyOrder) {
  if (const std::string reason = why_no_gpu(); !reason.empty()) GTEST_SKIP() << reason;
  Config config;
  config.model.name = "lenet5";
  const auto make = [&](const char* device) {
    config.device = device;
    return std::make_unique<Session>(config, ImageShape{28, 28, 1}, Normalization{{0}, {1}});
  };
  auto first = make("gpu:0"), second = make("cpu:0");
  EXPECT_EQ(current_device(), Device{});
  EXPECT_EQ(first->store().parameters().front().device(), parse_device("gpu:0"));
  EXPECT_EQ(second->store().parameters().front().device(), Device{});
  first.reset();
  EXPECT_EQ(current_device(), Device{});
  second.reset();
  EXPECT_EQ(current_device(), Device{});
}

}  // namespace
}  // namespace tessera
