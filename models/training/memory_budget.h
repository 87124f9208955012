// memory.budget: what a training would need above it is saved in the arenas of its steps, by
// computing some of what they make again instead of keeping it. The bits are the same.
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

// Returns a session of the run (Run::make_session()) within memory.budget: where what is asked for
// with it is more, by memory_need(), one whose arenas have what is left of the budget
// (CompileOptions::arena_budget). Throws PlanInfeasible where that is too little, with the smallest
// budget that would do.
std::unique_ptr<Session> session_within_budget(const Run& run);

// What the machine has free for this process, of which `used` bytes may be taken already; never
// more than it had free when this was first asked, as what is taken and not yet touched does not
// lessen what it says. To be asked first before a training takes anything.
int64_t machine_room(int64_t used = 0);

// Returns memory.budget in bytes, of the memory that steps on the run's device take.
int64_t budget_bytes(const Run& run);

// "512MiB (memory.budget): 31 steps run again, 1.9 % of a step by estimate (at least 1.7 %)"; empty
// without a budget.
std::string budget_text(const Config& config, const BudgetRecord& record);

// The step of a training for a full batch, without its budget, and what can be done about its
// arena.
class BudgetTrade {
 public:
  // A checkpoint holds the configuration, and so the text of `budget`: at first the longest.
  explicit BudgetTrade(const Run& training, std::optional<ByteSize> budget = kLongest);
  ~BudgetTrade();

  ArenaBudget& arena() { return *arena_; }
  int64_t rest() const { return rest_; }    // all but the arena
  int64_t floor() const { return floor_; }  // of the arena: no step of the training fits in less
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

// Returns the smallest budget under which a step takes at most `slowdown` of its time more, by
// estimate: 0.05 for 5 %, INFINITY for any. Counts the text of memory.budget if there is one, else
// the longest.
int64_t min_budget(const Run& training, double slowdown);

}  // namespace tessera
