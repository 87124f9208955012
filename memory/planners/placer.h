// A planner whose plan is there before it looks for a better one, so that it can keep to a limit in
// seconds. Private to memory/planners.
#pragma once

#include "tessera/memory/planners/placement.h"

namespace tessera::planning {

class Placer : public Planner {
 public:
  // Past the deadline it still returns a plan, but one that it no longer thinks about.
  virtual Plan plan_until(const Ready& ready, const Deadline& deadline) const = 0;

  Plan solve(const Problem& problem) const final;
  Solution prove(const Problem& problem, const Limits& limits = {}) const final;
};

}  // namespace tessera::planning
