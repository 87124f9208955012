#include "tessera/memory/planners/placer.h"

#include "tessera/memory/planners/exact.h"

namespace tessera::planning {

Plan Placer::solve(const Problem& problem) const { return plan_until(Ready(problem), {}); }

Solution Placer::prove(const Problem& problem, const Limits& limits) const {
  const Deadline deadline(limits.seconds);
  const Ready ready(problem);
  return judge(problem, ready, plan_until(ready, deadline), judge_nodes(limits), deadline);
}

}  // namespace tessera::planning
