// The memory of eager training on the CPU, network by network.
#include <cstdlib>

#include "tessera/tests/models/zoo/eager_events.h"

namespace tessera {
namespace {

using testing_zoo::eager_events;
using testing_zoo::expect_little_memory;
using testing_zoo::Threads;

class ZooEagerMemory : public testing::TestWithParam<std::string> {};

TEST_P(ZooEagerMemory, NeedsNoMoreThanDirectAndAsksNothingAfterTheSecondStep) {
  const Threads threads(1);
  expect_little_memory(eager_events(GetParam(), Device{}, 4), cpu_memory());
}

// Returns one or two networks of each family; all with TESSERA_LONG_TESTS=1.
std::vector<std::string> models() {
  if (std::getenv("TESSERA_LONG_TESTS") != nullptr) return model_names();
  return {"mlp",         "lenet5",         "cnn_bn",       "resnet20",        "resnet18_cifar",
          "resnet50",    "densenet121",    "mobilenet_v2", "googlenet",       "shufflenet_v2_x0_5",
          "densenet_bc", "regnet_y_400mf", "seresnet18",   "efficientnet_b0", "convnext_atto"};
}
INSTANTIATE_TEST_SUITE_P(, ZooEagerMemory, testing::ValuesIn(models()),
                         [](const auto& named) { return named.param; });

// Runs the steps themselves under the smallest limit.
TEST(EagerMemory, ResNet20TrainsUnderTheLeastLimit) {
  const Threads threads(1);
  const size_t limit = testing_events::most_for_caching(eager_events("resnet20", Device{}, 32).all);
  const EagerAllocatorScope scope(Device{}, "caching", {.limit = limit});
  EXPECT_NO_THROW(testing_zoo::run_eagerly("resnet20", Device{}, 32, 3, [] {}));
  EXPECT_LE(eager_allocator(Device{}).statistics().peak_reserved_bytes, limit);
}

}  // namespace
}  // namespace tessera
