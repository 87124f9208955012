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

#include "tessera/graph/cost_model.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/passes/recompute.h"
#include "tessera/graph/plan_report.h"
#include "tessera/memory/plan.h"
#include "tessera/memory/recompute/recompute.h"
#include "tessera/runtime/error.h"

namespace tessera {

// A program as a problem on integers: what could be computed again instead of kept
// (memory/recompute/recompute.h), and what each step costs.
struct ProgramSteps {
  RecomputeProblem problem;
  std::vector<int> nodes;       // of each of its steps
  std::vector<ValueId> values;  // of each of its values: which it is in the graph
};

// Makes the problem of the arena on `device`: a step for each node that is no view, a value for
// each that is no view of another. What stands elsewhere (arguments, results, persistent tensors,
// other devices) has no bytes. `scratch_bytes`: of each node. With `reuse`, values may take the
// blocks that lifetimes() gives them; bytes that are live here are those that are live there,
// rounded to the device's alignment.
ProgramSteps recompute_problem(const Graph& graph, const std::vector<int64_t>& scratch_bytes,
                               Device device, bool reuse, const CostModel& costs = RooflineCosts());

class ArenaBudget {
 public:
  // Of the arena on `device`, which would be planned with `planner`; what is given must outlive it.
  ArenaBudget(const Graph& graph, const std::vector<int64_t>& scratch_bytes, Device device,
              bool reuse, const Planner& planner, const RecomputeStrategy& strategy,
              const CostModel& costs = RooflineCosts());

  // A sequence that was looked at.
  struct Candidate {
    StepSequence runs;
    int64_t live = 0;    // the most bytes that are live at one time
    int64_t cost = 0;    // nanoseconds, estimated
    int64_t arena = -1;  // bytes after placement; -1: not placed yet
  };
  // The cheapest whose arena is at or under the budget; nullptr where none is.
  const Candidate* within(int64_t budget);
  // That with the smallest arena: within() finds one for every budget that is not below it. Of
  // those whose runs beyond the first cost at most `extra` nanoseconds.
  const Candidate& lowest(int64_t extra = INT64_MAX);
  // Each step once.
  const Candidate& plain();

  Repeated graph_of(const Candidate& candidate) const;
  // Of a way, all but the strategy's name. Each costs what it does in nanoseconds, by estimate.
  BudgetRecord record(const Candidate& candidate, int64_t budget);
  // A line for each of the largest values that are there when the most bytes are live.
  std::string peak_tensors_text(const Candidate& candidate, size_t count = 5) const;
  const RecomputeProblem& problem() const { return steps_.problem; }

 private:
  int64_t arena_of(Candidate& candidate);

  const Graph& graph_;
  const std::vector<int64_t>& scratch_bytes_;
  const Device device_;
  const bool reuse_;
  const Planner& planner_;
  ProgramSteps steps_;
  std::vector<Candidate>
      candidates_;  // the cheapest first, of equal ones the one with fewer live bytes
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
