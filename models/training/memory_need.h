// MemoryNeed: the memory that a run needs, byte for byte.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/graph/plan_report.h"
#include "tessera/models/training/run.h"

namespace tessera {

class CompiledStep;  // graph/compile.h

// All memory of notable size that a run allocates: persistent tensors, slots (I/O buffers), the
// arena, the loaders' batches, the data set and the checkpoint.
struct MemoryNeed {
  std::vector<MemoryItem> blocks;      // in host memory
  std::vector<MemoryItem> gpu_blocks;  // on the GPU, if the run uses one
  PlanReport report;          // describes the training step; for an evaluation, the evaluation step
  bool complete = true;       // false: opening the data may add more
  int64_t bytes() const;      // on the host
  int64_t gpu_bytes() const;  // on the GPU
};

// Returns the need of the run, in graph mode even if its mode is eager. If the data are opened, it
// equals the memory that the run allocates, to the byte. Throws what Run::session() throws.
MemoryNeed memory_need(const Run& run);
// Overload for the steps of another session, in graph mode.
MemoryNeed memory_need(Session& session, const Run& run);
// Returns the step for the full batch: the training step if there is one, else the evaluation step.
CompiledStep& first_step(Session& session, const RunSteps& steps);

// Returns a block for each loader of a training or an evaluation.
std::vector<MemoryItem> loader_blocks(const Run& run, Device device = {});
// Returns the memory that the run needs in addition to Session::regions(), a block for each
// purpose. `persistent` are the session's tensors; they need no values.
std::vector<MemoryItem> other_blocks(const Run& run, const Tensors& persistent);

}  // namespace tessera
