// The built-in planners, and Placer, the base of most of them. Private to memory/planners.
#pragma once

#include "tessera/memory/planners/placement.h"

namespace tessera {
namespace planning {

// A planner that respects a limit in seconds: it has a plan before it looks for a better one.
class Placer : public Planner {
 public:
  // Returns a plan even past the deadline, then without further optimization.
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
