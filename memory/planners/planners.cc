#include "tessera/memory/planners/list.h"

namespace tessera {

namespace {

std::vector<const Planner*>& list() {
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

const std::vector<const Planner*>& planners() { return list(); }

bool add_planner(const Planner& planner) {
  if (find_planner(planner.name()) != nullptr) return false;
  list().push_back(&planner);
  return true;
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
