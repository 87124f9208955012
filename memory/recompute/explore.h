// Parts of strategies: fill a frontier, read its candidates. Private to memory/recompute.
#pragma once

#include "tessera/memory/recompute/frontier.h"
#include "tessera/memory/recompute/tables.h"

namespace tessera::recomputing {

// Fills the frontier downwards from no recomputation: once in many small steps, and directly to
// each of some budgets, for which all bytes above the budget count from the beginning. Recomputes
// all steps that may be recomputed, or only cheap ones.
void go_down(const Tables& tables, bool only_cheap, Frontier& frontier);

// segments is square-root checkpointing (Chen, Xu, Zhang and Guestrin 2016): the steps up to the
// one with the most live bytes are cut in segments of equal length. Values that are read after that
// step are kept only if they pass from one segment to the next; the others are recomputed, a
// segment at a time. All numbers of segments from 1 to 64 are tried.
//
//   forward    | x . . . | x . . . | x . . . |        x kept, . recomputed
//   backward                       | x . . . | x . . . | x . . . |
void cut_in_segments(const Tables& tables, Frontier& frontier);

// Looks for better candidates along the whole frontier.
void improve(const Tables& tables, Frontier& frontier);

std::vector<StepSequence> candidates_of(const Tables& tables, const Frontier& frontier);

// Returns an upper bound of the number of states; infinity if there are too many to search.
double max_states(const Tables& tables);
// Replaces a plan by the cheapest within the budget. If there is none, replaces it by one of a
// lower peak: the lowest if max_states / 8 states are enough for each peak that is tried.
void prove_exactly(const RecomputeProblem& problem, int64_t budget, size_t max_states,
                   RecomputePlan& plan);

}  // namespace tessera::recomputing
