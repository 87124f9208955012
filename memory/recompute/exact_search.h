// What `exact` and `best` share: the shortest way through all states of a small problem. Private to
// memory/recompute.
//
// A state is which steps have run first and which values are there. From it any step may run that
// has what it reads, once enough is freed for it; what need not be freed yet is not, as it still
// can be later. So only the least sets that make room are tried, and values that nobody could want
// any more are dropped. Taken in the order of what was paid for running again, the first state that
// has run all steps and has the results is the cheapest (Dijkstra).
#pragma once

#include "tessera/memory/recompute/tables.h"

namespace tessera::recomputing {

struct ExactAnswer {
  bool complete = false;  // all states were looked at, or the cheapest way is found
  bool found = false;
  Runs runs;
  int64_t extra = 0;  // cost of what runs again; where the search is not complete, none has less
};

// No problem has more states than this says; infinity where it has too many values to be searched.
double most_states(const Tables& tables);
// Stops at so many states. Requires a finite number of them.
ExactAnswer cheapest_within(const Tables& tables, int64_t budget, size_t most_states);

// Replaces a plan by the cheapest within the budget, or, where there is none, by one of a lower
// peak, the lowest there is if an eighth of so many states tell for each peak that is tried.
void prove_exactly(const RecomputeProblem& problem, int64_t budget, size_t most_states,
                   RecomputePlan& plan);

}  // namespace tessera::recomputing
