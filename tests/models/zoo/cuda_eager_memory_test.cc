// The memory of eager training on a GPU.
#include "tessera/tests/engine/device_testing.h"
#include "tessera/tests/models/zoo/eager_events.h"

namespace tessera {
namespace {

class CudaEagerMemory : public OnGpu {};

TEST_F(CudaEagerMemory, NeedsNoMoreThanDirectAndAsksNothingAfterTheSecondStep) {
  const Device gpu = parse_device("gpu:0");
  for (const char* model : {"lenet5", "resnet20"}) {
    SCOPED_TRACE(model);
    testing_zoo::expect_little_memory(testing_zoo::eager_events(model, gpu, 4),
                                      context(gpu).memory());
  }
}

TEST_F(CudaEagerMemory, RandomEventsNeedNoMoreThanDirect) {
  RawMemory& memory = context(parse_device("gpu:0")).memory();
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const testing_events::AllocationEvents events = testing_events::random_events(seed);
    CachingAllocator allocator(memory, {.limit = testing_events::most_for_caching(events)});
    ASSERT_EQ(testing_events::failures(allocator, events), 0)
        << "seed " << seed << ", direct needs " << testing_events::min_limit_of_direct(events);
  }
}

}  // namespace
}  // namespace tessera
