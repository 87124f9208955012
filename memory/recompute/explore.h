// What strategies are made of: fill a frontier, read the ways off it. Private to memory/recompute.
#pragma once

#include "tessera/memory/recompute/frontier.h"
#include "tessera/memory/recompute/tables.h"

namespace tessera::recomputing {

// From no recomputation down: once in many small steps, and straight to each of some budgets, which
// looks at all that is above it from the beginning. Runs all steps again that may, or only cheap
// ones.
void go_down(const Tables& tables, bool only_cheap, Frontier& frontier);

// segments is square-root checkpointing (Chen, Xu, Zhang and Guestrin 2016): what leads up to the
// step at which most bytes are live is cut in segments of as many steps each. Of what is read after
// it, only what passes from one segment to the next is kept; the rest is made again, a segment at a
// time. All numbers of segments from 1 to 64 are tried.
//
//   forward    | x . . . | x . . . | x . . . |        x kept, . made again
//   backward                       | x . . . | x . . . | x . . . |
void cut_in_segments(const Tables& tables, Frontier& frontier);

// Looks for better ones all along the frontier.
void improve(const Tables& tables, Frontier& frontier);

std::vector<StepSequence> candidates_of(const Tables& tables, const Frontier& frontier);

// No problem has more states than this says; infinity where it has too many values to be searched.
double max_states(const Tables& tables);
// Replaces a plan by the cheapest within the budget, or, where there is none, by one of a lower
// peak, the lowest there is if an eighth of so many states tell for each peak that is tried.
void prove_exactly(const RecomputeProblem& problem, int64_t budget, size_t max_states,
                   RecomputePlan& plan);

}  // namespace tessera::recomputing
