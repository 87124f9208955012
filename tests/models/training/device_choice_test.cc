// auto never chooses a device on which the configuration cannot run, and gives the reason.

#include <gtest/gtest.h>

#include "tessera/models/training/memory_need.h"
#include "tessera/models/training/run.h"
#include "tessera/models/zoo/zoo.h"
#include "tessera/runtime/cuda/cuda.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/logical_devices.h"

namespace tessera {
namespace {

const DeviceInfo kCpu{Device{}, "a processor"};
const DeviceInfo kFirst{{DeviceKind::gpu, 0}, "a GPU"}, kSecond{{DeviceKind::gpu, 1}, "another"};

std::string nothing(Device) { return ""; }

TEST(DeviceChoice, AutoTakesTheFirstGpuThatCanRunItAndElseTheCpu) {
  EXPECT_EQ(auto_choice({kCpu, kFirst, kSecond}, nothing).device, kFirst.device);
  const DeviceChoice second = auto_choice({kCpu, kFirst, kSecond}, [](Device gpu) {
    return gpu.index == 0 ? std::string("conv2d has no kernel for gpu:0") : "";
  });
  EXPECT_EQ(second.device, kSecond.device);
  const DeviceChoice neither = auto_choice(
      {kCpu, kFirst}, [](Device gpu) { return "conv2d has no kernel for " + gpu.name(); });
  EXPECT_EQ(neither.device, Device{});
  EXPECT_EQ(neither.why, "auto chose it, because conv2d has no kernel for gpu:0");
  const DeviceChoice none = auto_choice({kCpu}, nothing);
  EXPECT_EQ(none.device, Device{});
  EXPECT_EQ(none.why, "auto chose it, because " + why_no_gpu());
}

// The GPU back end has kernels for all ops of a model; without it the first op lacks one.
TEST(DeviceChoice, WhatAGpuLacksIsAskedOfEveryOp) {
  Config config;
  config.model.name = "lenet5";
  const std::string missing = missing_kernel(config, kFirst.device);
  if (kCuda) {
    EXPECT_EQ(missing, "");
  } else {
    EXPECT_NE(missing.find(" has no kernel for gpu:0"), std::string::npos) << missing;
  }
  EXPECT_EQ(missing_kernel(config, Device{}), "");
  EXPECT_FALSE(is_described(kFirst.device));
}

TEST(DeviceChoice, TheLineNamesDeviceAndReason) {
  Config config;
  config.threads = 1;
  const std::string line = device_line(config);
  EXPECT_EQ(line.rfind("device: cpu:0, ", 0), 0u) << line;
  EXPECT_NE(line.find("1 threads; set by device: cpu"), std::string::npos) << line;
  config.device = "gpu:9";
  EXPECT_THROW(device_line(config), DeviceError);
}

// A described device answers every query made while a step is planned.
TEST(DescribedDevice, EveryModelIsPlannedForOne) {
  const Device gpu{DeviceKind::gpu, 5};
  const DescribedDevice described(gpu);
  for (const std::string& model : model_names()) {
    Config config;
    config.model.name = model;
    config.device = gpu.name();
    config.data.image_size = 64;
    config.data.batch = 2;
    const PlanReport report = memory_need({config, Purpose::timing}).report;
    EXPECT_EQ(report.device, "gpu:5") << model;
    EXPECT_EQ(report.alignment, 256) << model;
    for (const PlannedTensor& tensor : report.blocks) EXPECT_EQ(tensor.offset % 256, 0) << model;
  }
}

TEST(DescribedDevice, PlansAndDoesNotRun) {
  const Device gpu{DeviceKind::gpu, 5};
  EXPECT_THROW(DeviceScope{gpu}, DeviceError);
  const DescribedDevice described(gpu);
  const DeviceScope scope(gpu);
  EXPECT_THROW(zeros({4}), DeviceError);
}

}  // namespace
}  // namespace tessera
