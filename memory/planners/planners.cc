#include "tessera/memory/by_name.h"
#include "tessera/memory/planners/exact.h"
#include "tessera/memory/planners/list.h"

namespace tessera {
namespace {

std::vector<const Planner*>& all_planners() {
  static std::vector<const Planner*> all = {
      &none_planner(),
      &in_order_planner(),
      &first_fit_planner(),
      &first_fit_area_planner(),
      &first_fit_lifetime_planner(),
      &best_fit_planner(),
      &skyline_planner(),
      &xla_planner(),
      &tflite_planner(),
      &local_search_planner(),
      &optimal_planner(),
      &best_planner(),
  };
  return all;
}

}  // namespace

namespace planning {

Plan Placer::solve(const Problem& problem) const {
  return plan_until(PreparedProblem(problem), {});
}

Solution Placer::prove(const Problem& problem, const Limits& limits) const {
  const Deadline deadline(limits.seconds);
  const PreparedProblem prepared(problem);
  return judge(problem, prepared, plan_until(prepared, deadline), judge_nodes(limits), deadline);
}

}  // namespace planning

const std::vector<const Planner*>& planners() { return all_planners(); }

bool add_planner(const Planner& planner) { return add_by_name(all_planners(), planner); }

const Planner* find_planner(std::string_view name) { return find_by_name(all_planners(), name); }

std::string planner_names() { return names_in_order(all_planners()); }

}  // namespace tessera
