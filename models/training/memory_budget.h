// memory.budget: makes a training fit by activation checkpointing (rematerialization): steps
// recompute some activations instead of keeping them in their arenas. The bits are the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tessera/models/training/run.h"

namespace tessera {

class ArenaBudget;     // graph/arena_budget.h
struct BudgetRecord;   // graph/plan_report.h
struct CompiledGraph;  // graph/compiled_graph.h
class CostModel;       // graph/cost_model.h

// Returns a session of the run (Run::make_session()) within memory.budget. If memory_need() exceeds
// the budget, its arenas have only what the rest of the need leaves of the budget
// (CompileOptions::arena_budget). Throws PlanInfeasible, with the smallest budget that would do, if
// that is too little.
std::unique_ptr<Session> session_within_budget(const Run& run);

// Returns the memory that this process can use, including `used` bytes that it has allocated
// already. The first call fixes the maximum for all later ones, because memory that is allocated
// and not yet touched still counts as free. Call it once before a training allocates anything.
int64_t available_memory(int64_t used = 0);

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
