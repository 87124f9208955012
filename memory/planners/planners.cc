#include "tessera/memory/planners/list.h"

namespace tessera {

const std::vector<const Planner*>& planners() {
  static const std::vector<const Planner*> all = {
      &none_planner(),     &in_order_planner(), &first_fit_planner(),
      &best_fit_planner(), &skyline_planner(),  &optimal_planner(),
      &best_planner(),
  };
  return all;
}

const Planner* find_planner(std::string_view name) {
  for (const Planner* planner : planners()) {
    if (planner->name() == name) return planner;
  }
  return nullptr;
}

std::string planner_names() {
  std::string names;
  for (const Planner* planner : planners()) {
    if (!names.empty()) names += ", ";
    names += planner->name();
  }
  return names;
}

}  // namespace tessera
