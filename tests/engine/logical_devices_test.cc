// Logical devices of the CPU: limits, allocators, and errors that name what came too early or too
// late.
#include <thread>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/eager.h"
#include "tessera/engine/structural.h"
#include "tessera/engine/tensor.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

class LogicalDevices : public testing::Test {
 protected:
  void SetUp() override { configure_devices({}); }
  void TearDown() override { configure_devices({}); }

  template <class Call>
  static std::string error_of(Call call) {
    try {
      call();
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "no error";
  }
  static void expect_says(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
};

Tensor of_bytes(size_t bytes) { return zeros({static_cast<int64_t>(bytes / sizeof(float))}); }

TEST_F(LogicalDevices, AreListedWithTheirLimits) {
  ASSERT_EQ(logical_devices().front().device, Device{});
  const size_t whole = logical_devices().size();
  configure_devices({{"cpu:0", 2, 512 * kMiB}});
  const std::vector<DeviceInfo> parts = logical_devices();
  ASSERT_EQ(parts.size(), whole + 1);
  for (int i = 0; i < 2; ++i) {
    const DeviceInfo& part = parts[parts.size() - 2 + static_cast<size_t>(i)];
    EXPECT_EQ(part.device.name(), i == 0 ? "cpu:0" : "cpu:1");
    EXPECT_EQ(part.memory_bytes, static_cast<long long>(512 * kMiB));
    expect_says(part.description, i == 0 ? "part 1 of 2 of cpu:0" : "part 2 of 2 of cpu:0");
  }
  EXPECT_EQ(physical_devices().size(), whole);
}

TEST_F(LogicalDevices, LimitsMayDiffer) {
  configure_devices({{.device = "cpu:0", .limits = {2 * kMiB, 16 * kMiB}}});
  EXPECT_THROW(of_bytes(4 * kMiB), OutOfMemory);
  {
    const DeviceScope scope("cpu:1");
    const Tensor there = of_bytes(12 * kMiB);
    EXPECT_THROW(of_bytes(12 * kMiB), OutOfMemory);
  }
  expect_says(error_of([] {
                configure_devices({{.device = "cpu:0", .limits = {kMiB, 0}}});
              }),
              "at least one part and one byte per part, but has 2 parts of 0 bytes");
}

TEST_F(LogicalDevices, EachHasALimitOfItsOwn) {
  configure_devices({{"cpu:0", 2, 8 * kMiB}});
  const Tensor here = of_bytes(6 * kMiB);
  EXPECT_THROW(of_bytes(6 * kMiB), OutOfMemory);
  const DeviceScope scope("cpu:1");
  const Tensor there = of_bytes(6 * kMiB);  // bytes of cpu:0 do not count here
  EXPECT_EQ(there.device(), parse_device("cpu:1"));
  expect_says(error_of([] { of_bytes(6 * kMiB); }), "cpu:1");
  of_bytes(kMiB);  // still usable after an error
}

TEST_F(LogicalDevices, WorkOnOneIsNotSeenOnTheOther) {
  configure_devices({{"cpu:0", 2, 64 * kMiB}});
  const size_t before = eager_allocator(Device{}).statistics().live_bytes;
  const DeviceScope scope("cpu:1");
  const Tensor x = full({1000}, 2), y = x * 3.0 + x;
  EXPECT_EQ(sum(y).item<float>(), 8000);
  EXPECT_GE(eager_allocator(parse_device("cpu:1")).statistics().live_bytes, 8000u);
  EXPECT_EQ(eager_allocator(Device{}).statistics().live_bytes, before);
  EXPECT_EQ(context(parse_device("cpu:1")).memory().name(), "cpu:1");
  EXPECT_EQ(context(parse_device("cpu:1")).threads(), cpu_context().threads());
}

TEST_F(LogicalDevices, TensorsMoveBetweenPartsByCopyAlone) {
  configure_devices({{"cpu:0", 2, 64 * kMiB}});
  const Tensor x = full({10}, 2);
  const DeviceScope scope("cpu:1");
  expect_says(error_of([&] { x + 1.0; }), "use copy(x, device)");
  EXPECT_EQ(sum(copy(x, parse_device("cpu:1"))).item<float>(), 20);
}

// x is read here and, as a copy, there; both gradients are added here.
TEST_F(LogicalDevices, GradientsComeBackFromEveryPart) {
  configure_devices({{"cpu:0", 2, 64 * kMiB}});
  const Device there = parse_device("cpu:1");
  const Tensor x = requires_grad(full({10}, 2));
  Tensor far;
  {
    const DeviceScope scope(there);
    const Tensor sent = copy(x, there);
    far = sent * sent * 3.0;
  }
  const Tensor slope = gradients(sum(copy(far, Device{}) + x * x), {{x}}).front();
  EXPECT_EQ(slope.device(), Device{});
  EXPECT_EQ(slope.to_vector<float>(), std::vector<float>(10, 16));
}

TEST_F(LogicalDevices, MayBeSetUpAgainInOneProcess) {
  for (const int parts : {2, 3, 1, 2}) {
    configure_devices({{"cpu:0", parts, 16 * kMiB}});
    for (int i = 0; i < parts; ++i) {
      const DeviceScope scope(Device{DeviceKind::cpu, i});
      const Tensor x = of_bytes(12 * kMiB);
      expect_says(error_of([] { of_bytes(12 * kMiB); }), Device{DeviceKind::cpu, i}.name());
    }
    EXPECT_THROW(DeviceScope(Device{DeviceKind::cpu, parts}), DeviceError);
  }
  configure_devices({});
  of_bytes(40 * kMiB);
  EXPECT_THROW(DeviceScope("cpu:1"), DeviceError);
}

TEST_F(LogicalDevices, ErrorsNameTheCallThatCameTooEarlyOrTooLate) {
  expect_says(error_of([] { DeviceScope scope("cpu:1"); }),
              "to divide the CPU, call configure_devices() before this call");
  {
    const Tensor early = zeros({100});
    const std::string text = error_of([] { configure_devices({{"cpu:0", 2}}); });
    expect_says(text, "configure_devices: no memory may be in use");
    expect_says(text, "of cpu:0; call it before");
  }
  configure_devices({{"cpu:0", 2, 64 * kMiB}});
  {
    const DeviceScope scope("cpu:1");
    expect_says(error_of([] { configure_devices({}); }), "but DeviceScope(\"cpu:1\") is");
  }
  Tensor late;
  {
    const DeviceScope scope("cpu:1");
    late = zeros({100});
  }
  expect_says(error_of([] { configure_devices({}); }), "of cpu:1; call it before");
  late = Tensor();
  std::string from_another_thread;
  std::thread([&] {
    const DeviceScope scope("cpu:1");
    std::thread([&] { from_another_thread = error_of([] { configure_devices({}); }); }).join();
  }).join();
  expect_says(from_another_thread, "a DeviceScope of another thread");
}

TEST_F(LogicalDevices, WhatCannotBeCutIsRefused) {
  expect_says(error_of([] { configure_devices({{"cpu:3", 2}}); }), "cpu:3 does not exist");
  expect_says(error_of([] { configure_devices({{"cpu:0", 2}, {"cpu:0", 1}}); }), "named twice");
  expect_says(error_of([] { configure_devices({{"cpu:0", 0}}); }), "at least one part");
  expect_says(error_of([] { configure_devices({{"gpu:9", 2}}); }), "gpu:9 does not exist");
}

}  // namespace
}  // namespace tessera
