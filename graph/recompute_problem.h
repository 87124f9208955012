// A program as a problem on integers: what could be computed again instead of kept
// (memory/recompute/recompute.h), and what each step costs.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/step_costs.h"
#include "tessera/memory/recompute/recompute.h"

namespace tessera {

struct ProgramSteps {
  RecomputeProblem problem;
  std::vector<int> nodes;       // of each of its steps
  std::vector<ValueId> values;  // of each of its values: which it is in the graph
};

// Of the arena on `device`. A step for each node that is no view, a value for each that is no view
// of another. What stands elsewhere (arguments, results, persistent tensors, other devices) has no
// bytes. `scratch_bytes`: of each node. With `reuse`, values may take the blocks that lifetimes()
// gives them; bytes that are live here are those that are live there, rounded to the device's
// alignment.
ProgramSteps recompute_problem(const Graph& graph, const std::vector<int64_t>& scratch_bytes,
                               Device device, bool reuse, const StepCosts& costs = CountedCosts());

}  // namespace tessera
