// Whether a training fits a limit in bytes, which batch would, and why not.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/plan_report.h"
#include "tessera/models/config.h"
#include "tessera/runtime/data/dataset.h"

namespace tessera {

// Everything of some size that a training will ask of the machine: persistent values, slots, the
// arena, the loaders' batches, the data set and the checkpoint.
struct MemoryNeed {
  std::vector<HostBuffer> blocks;
  PlanReport report;  // of the training step
  int64_t bytes() const;
};

// Known from the configuration alone: opens no data, takes no memory for tensors. Data sets whose
// size only their files tell (folders, HDF5) count as what their loaders take. Throws what
// compiling the step throws.
MemoryNeed memory_need(const Config& config);

// The largest data.batch whose training needs at most `limit` bytes; 0 when not even one image
// fits. No more than the data set has images.
int64_t largest_batch(const Config& config, int64_t limit);

// Throws OutOfMemory when the configuration has a memory.limit that is exceeded: needed, available,
// over by, by class, the tensors that set the minimum, and what would fit. Throws ConfigError for a
// limit in eager mode, whose need nobody knows before it ran.
void require_fit(const Config& config);

// "85.1 MiB of 23.5 GiB; data.batch could grow to about 16000": what is used of memory.limit or
// else of what the machine has free.
std::string headroom_text(const Config& config, int64_t used);

}  // namespace tessera
