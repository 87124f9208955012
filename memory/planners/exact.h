// The exact search as `optimal` and `best` use it, with proofs. Private to memory/planners.
#pragma once

#include "tessera/memory/plan.h"
#include "tessera/memory/planners/deadline.h"
#include "tessera/memory/planners/placement.h"
#include "tessera/memory/planners/search.h"

namespace tessera::planning {

// Returns the unit of offsets: if no buffer of a plan can be pushed further down, all offsets and
// ends are multiples of it.
int64_t step_of(const Problem& problem);

// Returns the decisions that a planner without a search spends on finding a conflict.
int64_t judge_nodes(const Limits& limits);

// Judges a plan by the lower bound alone. If the problem is infeasible, adds a conflict, unless
// finding one takes too many decisions in proportion to `nodes`.
Solution judge(const Problem& problem, const PreparedProblem& prepared, Plan plan, int64_t nodes,
               const Deadline& deadline);

// Returns the status of a solution with a valid plan, from its bytes and bound.
SolveStatus status_of(const Problem& problem, const Solution& solution);

// Searches below the judged plan until a plan is proved lowest, fits the capacity if there is one,
// or `nodes` decisions are made.
Solution refine(const Problem& problem, const PreparedProblem& prepared, Solution judged,
                int64_t nodes, const Deadline& deadline, const Inferences& inferences = {});

}  // namespace tessera::planning
