// An arena within a budget: what is computed again instead of kept, so that the plan, to the byte,
// is at or under it, at the least cost.
//
// A recompute strategy names sequences of steps (memory/recompute/); what counts is the arena after
// placement, so sequences are placed, the cheapest first, until one fits. They do not depend on the
// budget: a larger budget never costs more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/passes/recompute.h"
#include "tessera/graph/plan_report.h"
#include "tessera/graph/recompute_problem.h"
#include "tessera/memory/plan.h"
#include "tessera/runtime/error.h"

namespace tessera {

class ArenaBudget {
 public:
  // Of the arena on `device`, which would be planned with `planner`; what is given must outlive it.
  ArenaBudget(const Graph& graph, const std::vector<int64_t>& scratch_bytes, Device device,
              bool reuse, const Planner& planner, const RecomputeStrategy& strategy,
              const StepCosts& costs = CountedCosts());

  // A sequence that was looked at.
  struct Way {
    Runs runs;
    int64_t live = 0;    // the most bytes that are live at one time
    int64_t cost = 0;    // nanoseconds, estimated
    int64_t arena = -1;  // bytes after placement; -1: not placed yet
  };
  // The cheapest whose arena is at or under the budget; nullptr where none is.
  const Way* within(int64_t budget);
  // That with the smallest arena: within() finds one for every budget that is not below it. Of
  // those whose runs beyond the first cost at most `extra` nanoseconds.
  const Way& lowest(int64_t extra = INT64_MAX);
  // Each step once.
  const Way& plain();

  Repeated graph_of(const Way& way) const;
  // Of a way, all but the strategy's name. Each costs what it does in nanoseconds, by estimate.
  BudgetRecord record(const Way& way, int64_t budget);
  // A line for each of the largest values that are there when the most bytes are live.
  std::string at_the_peak(const Way& way, size_t count = 5) const;
  const RecomputeProblem& problem() const { return steps_.problem; }

 private:
  int64_t arena_of(Way& way);

  const Graph& graph_;
  const std::vector<int64_t>& scratch_bytes_;
  const Device device_;
  const bool reuse_;
  const Planner& planner_;
  ProgramSteps steps_;
  std::vector<Way> ways_;  // the cheapest first, of equal ones the one with fewer live bytes
  size_t plain_ = 0;
};

// No sequence that was looked at fits. Says what is needed at least and what is there then.
class BudgetTooSmall : public PlanInfeasible {
 public:
  BudgetTooSmall(ArenaBudget& arena, int64_t budget);
  int64_t minimum() const { return minimum_; }  // bytes, with which it would fit

 private:
  int64_t minimum_;
};

}  // namespace tessera
