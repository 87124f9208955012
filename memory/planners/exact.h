// The exact search as `optimal` and `best` use it, with proofs. Private to memory/planners.
#pragma once

#include "tessera/memory/planners/placement.h"

namespace tessera::planning {

// Inferences, which can be switched off to measure their worth. None changes what can be proved.
struct Inferences {
  bool peeling = true;     // leaves out buffers that fit in any case (exact.cc)
  bool sums = true;        // requires that a section's unplaced blocks fit above its floor
  bool splits = true;      // solves separately the parts of time that no block links
  bool ceiling = true;     // places a block as long as its part at the top of the part
  bool duplicates = true;  // places the first of equal blocks lowest (symmetry breaking)
  bool hatless = true;     // prunes alternatives to a block that lifts no other (MiniMalloc)
  bool nogoods = true;     // prunes states that have failed before
  bool restarts = true;    // alternates several strategies, for longer and longer
};

// Judges a plan by the lower bound alone. If the problem is infeasible, adds a conflict, unless
// finding one takes too many decisions in proportion to `nodes` (0: a default).
Solution judge(const PreparedProblem& prepared, Plan plan, int64_t nodes);

// Returns the status of a solution with a valid plan, from its bytes and bound.
SolveStatus status_of(const Problem& problem, const Solution& solution);

// Searches below the judged plan until a plan is proved lowest, fits the capacity if there is one,
// or `nodes` decisions are made.
Solution refine(const PreparedProblem& prepared, Solution judged, int64_t nodes,
                const Inferences& inferences = {});

}  // namespace tessera::planning
