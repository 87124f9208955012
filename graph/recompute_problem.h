// A program as a problem on integers: what could be computed again instead of kept
// (memory/recompute/recompute.h), and what each step costs.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/memory/recompute/recompute.h"

namespace tessera {

// How long a step takes, estimated from what it computes and moves: whichever of the two takes
// longer (a roofline), and something for each step. The default is no machine's: plans must not
// depend on a stopwatch, and what is compared is one step with another.
struct CostModel {
  double flops_per_ns = 500, bytes_per_ns = 50;
  int64_t ns_per_step = 1000;

  int64_t nanoseconds(const Cost& cost) const;
  // Whether it takes as long as its bytes do: element-wise ops, norms, copies.
  bool moves_bytes(const Cost& cost) const;
};

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
                               Device device, bool reuse, const CostModel& costs = {});

}  // namespace tessera
