// Processes with a GPU each: gradients go through the host, with the bits of one process.
#include <mutex>

#include "tessera/models/training/run.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/models/training/parts_steps.h"
#include "tessera/tests/runtime/exchange/simulated_network.h"

namespace tessera {
namespace {

class CudaProcesses : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!IsSkipped()) configure_devices({{"gpu:0", 2, size_t{64} << 20}});
  }
  void TearDown() override {
    if (!IsSkipped()) configure_devices({});
  }
};

TEST_F(CudaProcesses, GiveTheBitsOfOne) {
  Config config = norm_config();
  config.train.accumulate = 4;
  const Trained alone = trained(config, nullptr, Device{DeviceKind::gpu, 0});
  for (const Mode mode : {Mode::kGraph, Mode::kEager})
    for (uint64_t seed = 0; seed < 3; ++seed) {
      config.mode = mode;
      std::mutex mutex;
      std::vector<Trained> all;
      SimulatedNetwork network(2, seed);
      network.run([&](std::shared_ptr<Exchange> exchange) {
        Trained one = trained(config, exchange, Device{DeviceKind::gpu, exchange->rank()});
        const std::lock_guard lock(mutex);
        all.push_back(std::move(one));
      });
      ASSERT_EQ(all.size(), 2u);
      for (const Trained& one : all)
        EXPECT_TRUE(one == alone) << (mode == Mode::kEager ? "eager" : "graph") << ", " << seed;
    }
}

TEST_F(CudaProcesses, TakeTheGpuOfTheirRankOnTheHost) {
  Config config;
  const auto device = [&](const char* name, int rank) {
    config.device = name;
    return choice_of_rank(choose_device(config), config, rank).device;
  };
  EXPECT_EQ(device("gpu", 0), (Device{DeviceKind::gpu, 0}));
  EXPECT_EQ(device("gpu", 1), (Device{DeviceKind::gpu, 1}));
  EXPECT_EQ(device("gpu", 2), (Device{DeviceKind::gpu, 0}));
  EXPECT_EQ(device("gpu:0", 1), (Device{DeviceKind::gpu, 0}));
  EXPECT_EQ(device("cpu", 1), Device{});
}

}  // namespace
}  // namespace tessera
