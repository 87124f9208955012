// The built-in planners, one function each: in greedy.cc, or in the file of that name.
#pragma once

#include "tessera/memory/planners/placer.h"

namespace tessera {

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
