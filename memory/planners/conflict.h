// Why there is no plan: few buffers that cannot stand together. Private to memory/planners.
#pragma once

#include <vector>

#include "tessera/memory/planners/deadline.h"
#include "tessera/memory/planners/placement.h"

namespace tessera::planning {

// Two fixed buffers that are live at one time and share bytes, or nothing.
std::vector<int> clash_of(const Problem& problem);

// Of the suspects, which cannot be planned within the capacity, some of which that still holds,
// though not when any one of them is left out. Empty when that takes more decisions or time than
// given.
std::vector<int> conflict_of(const Problem& problem, const Ready& ready, std::vector<int> suspects,
                             int64_t capacity, int64_t nodes, const Deadline& deadline);

// Suspects to begin with where the lower bound is above the capacity: those of one time.
std::vector<int> crowd_above(const Problem& problem, const Ready& ready, int64_t capacity,
                             const Deadline& deadline);

}  // namespace tessera::planning
