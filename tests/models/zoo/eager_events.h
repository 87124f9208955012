// Records the allocations of eager training steps and checks the default allocator with them, on
// the CPU and on GPUs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/engine/eager.h"
#include "tessera/engine/scope.h"
#include "tessera/engine/structural.h"
#include "tessera/memory/caching_allocator.h"
#include "tessera/runtime/context.h"
#include "tessera/tests/memory/allocation_events.h"
#include "tessera/tests/models/zoo/zoo_step.h"

namespace tessera::testing_zoo {

// The events of some steps, and the number of events at the end of each step.
struct EagerEvents {
  testing_events::AllocationEvents all;
  std::vector<size_t> step_ends;
};

inline void run_eagerly(const std::string& model, Device device, int64_t batch, int steps,
                        const std::function<void()>& after_step) {
  const DeviceScope scope(device);
  ZooStep step(model, small_options(model), batch);
  step.store.materialize();
  Tensors arguments;
  for (const Tensor& argument : step.arguments(0)) arguments.push_back(copy(argument, device));
  for (int i = 0; i < steps; ++i) {
    step(arguments);
    after_step();
  }
}

inline EagerEvents eager_events(const std::string& model, Device device, int64_t batch) {
  EagerEvents found;
  const auto events = std::make_shared<testing_events::AllocationEvents>();
  set_eager_allocator(device, std::make_unique<testing_events::RecordingAllocator>(
                                  context(device).memory(), events));
  run_eagerly(model, device, batch, 4, [&] { found.step_ends.push_back(events->size()); });
  set_eager_allocator(device, "caching");
  found.all = *events;
  return found;
}

inline void expect_little_memory(const EagerEvents& events, RawMemory& machine) {
  CachingAllocator limited(machine, {.limit = testing_events::most_for_caching(events.all)});
  EXPECT_EQ(testing_events::failures(limited, events.all), 0)
      << "under the least limit, where direct needs "
      << testing_events::min_limit_of_direct(events.all);

  LimitedMemory counted(machine, RawMemory::kNoLimit);
  CachingAllocator caching(counted);
  testing_events::Replay replay(caching);
  size_t done = 0;
  uint64_t asked = 0;
  for (size_t i = 0; i < events.step_ends.size(); ++i) {
    for (; done < events.step_ends[i]; ++done) EXPECT_TRUE(replay.apply(events.all[done]));
    const uint64_t before = std::exchange(asked, counted.statistics().allocations);
    if (i >= 2) {
      EXPECT_EQ(asked, before) << "in step " << i;
    }
  }
}

}  // namespace tessera::testing_zoo
