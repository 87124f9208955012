// ArenaBudget: keeps the arena within a budget by activation checkpointing (rematerialization).
// Some values are recomputed instead of kept, so that the planned arena fits, at the least cost.
//
// A recompute strategy proposes sequences of steps (memory/recompute/). The size that counts is
// that of the arena after placement, so sequences are placed, the cheapest first, until one fits.
// They do not depend on the budget, so a larger budget never costs more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/cost_model.h"
#include "tessera/graph/graph.h"
#include "tessera/graph/plan_report.h"
#include "tessera/memory/plan.h"
#include "tessera/memory/recompute/recompute.h"
#include "tessera/runtime/error.h"

namespace tessera {

// A program as a recompute problem on integers (memory/recompute/recompute.h): which values could
// be recomputed, and the cost of each step.
struct ProgramSteps {
  RecomputeProblem problem;
  std::vector<int> nodes;       // the node of each step
  std::vector<ValueId> values;  // the ValueId of each value
};

// Makes the recompute problem of the arena on `device`: a step for each node that is not a view, a
// value for each value that is not a view. Values outside of this arena (arguments, results,
// persistent tensors, other devices) have no bytes. `scratch_bytes` has one entry for each node. If
// `reuse` is set, a value may reuse the blocks that lifetimes() would give it. The live bytes equal
// those of the graph, rounded to the device's alignment.
ProgramSteps recompute_problem(const Graph& graph, const std::vector<int64_t>& scratch_bytes,
                               Device device, bool reuse, const CostModel& costs = RooflineCosts());

// A graph in which some nodes run again, so that their values need not be kept (rematerialization).
struct Repeated {
  Graph graph;
  std::vector<int> origin;  // for each node: its index in the original graph
};

// Returns the graph that runs `nodes` in this order. `nodes` contains each node that is not a view
// at least once, and each update once. A recomputed node makes new values, which later users read;
// their views are recomputed too. Values of the first runs keep their ids.
Repeated repeat_nodes(const Graph& graph, const std::vector<int>& nodes);

class ArenaBudget {
 public:
  // Examines the arena on `device`, to be planned with `planner`. All references must outlive this
  // object.
  ArenaBudget(const Graph& graph, const std::vector<int64_t>& scratch_bytes, Device device,
              bool reuse, const Planner& planner, const RecomputeStrategy& strategy,
              const CostModel& costs = RooflineCosts());

  // A sequence of steps that the strategy proposed.
  struct Candidate {
    StepSequence runs;
    int64_t live = 0;    // peak of the live bytes
    int64_t cost = 0;    // nanoseconds, estimated
    int64_t arena = -1;  // bytes after placement; -1: not placed yet
  };
  // Returns the cheapest candidate whose arena is within the budget; nullptr if there is none.
  const Candidate* within(int64_t budget);
  // Returns the candidate with the smallest arena among those whose recomputation costs at most
  // `extra` nanoseconds. within() finds a candidate for every budget that is not below
  // lowest().arena.
  const Candidate& lowest(int64_t extra = INT64_MAX);
  // Returns the candidate that runs each step once.
  const Candidate& plain();

  Repeated graph_of(const Candidate& candidate) const;
  // Returns the record of a candidate without the strategy's name. Costs are estimates in
  // nanoseconds.
  BudgetRecord record(const Candidate& candidate, int64_t budget);
  // Returns a line for each of the largest values that are live at the peak.
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
  std::vector<Candidate> candidates_;  // the cheapest first, then by live bytes
  size_t plain_ = 0;
};

// Thrown if no candidate fits. Reports the smallest possible arena and the largest tensors in it.
class BudgetTooSmall : public PlanInfeasible {
 public:
  BudgetTooSmall(ArenaBudget& arena, int64_t budget);
  int64_t minimum() const { return minimum_; }  // bytes; the smallest sufficient budget

 private:
  int64_t minimum_;
};

}  // namespace tessera
