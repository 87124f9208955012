// MemoryNeed: the memory that a run needs, byte for byte. memory.budget makes a training fit by
// activation checkpointing (rematerialization): steps recompute some activations instead of keeping
// them in their arenas. The bits are the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/engine/tensor.h"
#include "tessera/graph/plan_report.h"
#include "tessera/models/training/run.h"

namespace tessera {

class ArenaBudget;     // graph/arena_budget.h
class CompiledStep;    // graph/compile.h
struct CompiledGraph;  // graph/compiled_graph.h
class CostModel;       // graph/cost_model.h

// All memory of notable size that a run allocates: persistent tensors, slots (I/O buffers), the
// arena, the loaders' batches, the data set and the checkpoint.
struct MemoryNeed {
  std::vector<MemoryItem> blocks;      // in host memory
  std::vector<MemoryItem> gpu_blocks;  // on the GPU, if the run uses one
  PlanReport report;     // describes the training step; for an evaluation, the evaluation step
  bool complete = true;  // false: opening the data may add more
  int64_t bytes() const { return total_bytes(blocks); }
  int64_t gpu_bytes() const { return total_bytes(gpu_blocks); }
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

// Returns the memory that this process can use, including `used` bytes that it has allocated
// already. The first call fixes the maximum for all later ones, because memory that is allocated
// and not yet touched still counts as free. Call it once before a training allocates anything.
int64_t available_memory(int64_t used = 0);

// Returns the free memory of the GPU plus what this process has allocated on it; nullopt if that is
// unknown.
std::optional<int64_t> available_gpu_memory(Device gpu);

// Returns memory.budget in bytes, for the device on which the run's steps run.
int64_t budget_bytes(const Run& run);

// Returns "512MiB (memory.budget): 31 steps run again, 1.9 % of a step by estimate (at least 1.7
// %)"; empty without a budget.
std::string budget_text(const Config& config, const BudgetRecord& record);

// The trade of memory against time for a training step with a full batch: the arenas that
// recomputation makes possible.
class BudgetTrade {
 public:
  // A checkpoint holds the configuration, and so the text of `budget`; the default is the longest
  // text.
  explicit BudgetTrade(const Run& training, std::optional<ByteSize> budget = kLongest);
  ~BudgetTrade();

  ArenaBudget& arena() { return *arena_; }
  int64_t rest() const { return rest_; }    // the need without the arena
  int64_t floor() const { return floor_; }  // the smallest arena that every step fits
  const Config& config() const { return run_.config(); }

  static constexpr ByteSize kLongest{9'999'999'999'999};

 private:
  std::unique_ptr<ArenaBudget> arena_of(const CompiledGraph& compiled) const;
  void raise_floor(const CompiledGraph& compiled);

  const Run run_;
  const std::shared_ptr<const CostModel> costs_;
  const std::unique_ptr<ArenaBudget> arena_;
  int64_t rest_ = 0, floor_ = 0;
};

// Returns the smallest budget under which a step takes at most `slowdown` more time, by estimate:
// 0.05 for 5 %, INFINITY for any. Counts the text of memory.budget if that is set, else the
// longest.
int64_t min_budget(const Run& training, double slowdown);

}  // namespace tessera
