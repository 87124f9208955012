// What a run will ask of the machine, byte for byte.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/graph/plan_report.h"
#include "tessera/models/training/run.h"

namespace tessera {

class CompiledStep;  // graph/compile.h

// Everything of some size that will be asked for: persistent values, slots, the arena, the loaders'
// batches, the data set and the checkpoint.
struct MemoryNeed {
  std::vector<MemoryItem> blocks;      // of the host's memory
  std::vector<MemoryItem> gpu_blocks;  // of the GPU's, where it runs on one
  PlanReport report;          // of the training step, for an evaluation of the evaluation step
  bool complete = true;       // false: opening the data may tell of more
  int64_t bytes() const;      // of the host
  int64_t gpu_bytes() const;  // of the GPU
};

// Returns what the run needs, in graph mode even where its mode is eager. With the need of opened
// data it is exact: what is asked for then is this, to the byte. Throws what Run::session() does.
MemoryNeed memory_need(const Run& run);
// The same with the steps of another session, in graph mode.
MemoryNeed memory_need(Session& session, const Run& run);
// Returns the step for the full batch: of training where there is one, else of evaluation.
CompiledStep& first_step(Session& session, const RunSteps& steps);

// What the loaders of a training or an evaluation ask for, a block for each.
std::vector<MemoryItem> loader_blocks(const Run& run, Device device = {});
// What the run asks for besides Session::regions(), a block for each holder. `persistent`: the
// session's tensors, whose values need not be there.
std::vector<MemoryItem> other_blocks(const Run& run, const Tensors& persistent);

}  // namespace tessera
