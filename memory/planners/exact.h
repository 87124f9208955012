// What `optimal` and `best` share: the exact search, made to prove something. Private to
// memory/planners.
#pragma once

#include "tessera/memory/plan.h"
#include "tessera/memory/planners/deadline.h"
#include "tessera/memory/planners/placement.h"
#include "tessera/memory/planners/search.h"

namespace tessera::planning {

// Every plan that is pushed down as far as it goes has offsets, and ends, at multiples of this.
int64_t step_of(const Problem& problem);

// Decisions that a planner which makes none spends on showing why there is no plan.
int64_t judge_nodes(const Limits& limits);

// The verdict as far as the lower bound tells. Where it is infeasible it shows a conflict, if one
// is found in as many decisions as go with a search of so many.
Solution judge(const Problem& problem, const PreparedProblem& prepared, Plan plan, int64_t nodes,
               const Deadline& deadline);

// What a plan that is known to be valid proves, next to the bound.
SolveStatus verdict_of(const Problem& problem, const Solution& solution);

// Searches below the plan that was judged, until it is proved lowest, fits the capacity if there is
// one, or so many decisions are made.
Solution refine(const Problem& problem, const PreparedProblem& prepared, Solution judged,
                int64_t nodes, const Deadline& deadline, const Inferences& inferences = {});

}  // namespace tessera::planning
