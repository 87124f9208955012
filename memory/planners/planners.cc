#include "tessera/memory/by_name.h"
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

bool add_planner(const Planner& planner) { return add_by_name(list(), planner); }

const Planner* find_planner(std::string_view name) { return find_by_name(list(), name); }

std::string planner_names() { return names_in_order(list()); }

}  // namespace tessera
