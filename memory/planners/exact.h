// What `optimal` and `best` share: the exact search, made to prove something. Private to
// memory/planners.
#pragma once

#include <vector>

#include "tessera/memory/plan.h"
#include "tessera/memory/planners/search.h"

namespace tessera::planning {

// Searches below a plan that is known, until it is proved lowest, fits the capacity if there is
// one, or the limits are reached.
Solution refine(const Problem& problem, Plan known, const Limits& limits,
                const Inferences& inferences = {});

// The verdict as far as the lower bound tells; shows a conflict where it is infeasible.
Solution judge(const Problem& problem, Plan plan);

// Of buffers that cannot be planned within the capacity, some of which that still holds, though not
// when any one of them is left out. Empty when that takes more decisions than given.
std::vector<int> conflict_of(const Problem& problem, int64_t nodes);

}  // namespace tessera::planning
