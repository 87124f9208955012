// A compiled step on a part of the CPU uses only that part's memory and has the bits of the whole.
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/autograd.h"
#include "tessera/engine/eager.h"
#include "tessera/engine/store.h"
#include "tessera/engine/structural.h"
#include "tessera/graph/compile.h"
#include "tessera/graph/compiled_graph.h"
#include "tessera/graph/program.h"
#include "tessera/layers/modules.h"
#include "tessera/layers/optimizers/sgd.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"

namespace tessera {
namespace {

struct Training {
  explicit Training(const char* device) : scope(device) {}
  std::vector<float> run() {
    Linear fc(store, "fc", {.in = 64, .out = 32});
    Sgd sgd(store, store.parameters(), {.momentum = 0.9});
    step.emplace(
        [&](const Tensors& x) {
          const Tensor y = fc(x[0]);
          sgd.step(gradients(sum(y * y), store.parameters()), x[1]);
          return Tensors{sum(y)};
        },
        CompileOptions{});
    const Tensor x = random_normal({16, 64}, 3), lr = scalar(0.001);
    for (int i = 0; i < 3; ++i) step->call({x, lr});
    return store.parameters().front().to_vector<float>();
  }

  const DeviceScope scope;
  Store store{1};
  std::optional<Compiled> step;
};

TEST(DeviceParts, AStepStandsOnItsPartWithTheBitsOfTheWhole) {
  configure_devices({});
  std::vector<float> whole;
  {
    Training training("cpu:0");
    whole = training.run();
  }
  configure_devices({{"cpu:0", 2, size_t{64} << 20}});
  {
    Training training("cpu:1");
    EXPECT_EQ(training.run(), whole);
    const Device part{DeviceKind::cpu, 1};
    const Program& program = *training.step->step(0).program();
    EXPECT_EQ(program.compiled().device(), part);
    eager_allocator(part).trim();
    const size_t live = context(part).memory().statistics().live_bytes;
    EXPECT_GE(live, training.store.bytes() + program.compiled().arena_bytes() +
                        program.compiled().slot_bytes());
    EXPECT_EQ(context(Device{}).memory().statistics().live_bytes, 0u);
  }
  configure_devices({{"cpu:0", 2, size_t{8} << 10}});
  {
    Training training("cpu:1");
    EXPECT_THROW(training.run(), OutOfMemory);
  }
  configure_devices({});
}

}  // namespace
}  // namespace tessera
