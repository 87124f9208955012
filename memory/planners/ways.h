// The cheap ways to a plan, of which the lowest wins. Private to memory/planners.
#pragma once

#include "tessera/memory/planners/placement.h"

namespace tessera::planning {

// Places the buffers in a number of orders, the likeliest first, until the plan is as low as the
// lower bound or fits the capacity. Those that other planners stand for are tried in any case, the
// others while the effort is below a limit; the first alone where only `few` are wanted.
Plan lowest_by_order(const Problem& problem, const Ready& ready, Effort limit,
                     const Deadline& deadline, bool few = false);

}  // namespace tessera::planning
