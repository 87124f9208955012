// The exact search of small problems, which proves plans. Private to memory/recompute.
#pragma once

#include "tessera/memory/recompute/live_bytes.h"

namespace tessera::recomputing {

// Returns an upper bound of the number of states; infinity if there are too many to search.
double max_states(const Tables& tables);
// Replaces a plan by the cheapest within the budget. If there is none, replaces it by one of a
// lower peak: the lowest if max_states / 8 states are enough for each peak that is tried.
void prove_exactly(const RecomputeProblem& problem, int64_t budget, size_t max_states,
                   RecomputePlan& plan);

}  // namespace tessera::recomputing
