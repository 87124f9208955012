// The built-in planners, and what most of them are: placers. Private to memory/planners.
#pragma once

#include "tessera/memory/planners/placement.h"

namespace tessera {
namespace planning {

// A planner whose plan is there before it looks for a better one, so that it can keep to a limit in
// seconds.
class Placer : public Planner {
 public:
  // Past the deadline it still returns a plan, but one that it no longer thinks about.
  virtual Plan plan_until(const PreparedProblem& prepared, const Deadline& deadline) const = 0;

  Plan solve(const Problem& problem) const final;
  Solution prove(const Problem& problem, const Limits& limits = {}) const final;
};

}  // namespace planning

const Planner& none_planner();
const Planner& in_order_planner();
const Planner& first_fit_planner();
const Planner& first_fit_area_planner();
const Planner& first_fit_lifetime_planner();
const Planner& best_fit_planner();
const Planner& skyline_planner();
const planning::Placer& xla_planner();
const planning::Placer& tflite_planner();
const planning::Placer& local_search_planner();
const Planner& optimal_planner();
const Planner& best_planner();

}  // namespace tessera
