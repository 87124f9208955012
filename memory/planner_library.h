// Planners and strategies of recomputation out of shared libraries. A library has one, named by a
// line at the end of its source:
//
//   class Mine : public tessera::Planner { ... };        or: tessera::RecomputeStrategy
//   TESSERA_PLANNER(Mine)                                    TESSERA_RECOMPUTE(Mine)
//
// Build it with the compiler and the version of Tessera that load it: both cross as C++ objects.
// The symbols carry a number that grows when plan.h or recompute.h changes.
#pragma once

#include <string>

#include "tessera/memory/plan.h"
#include "tessera/memory/recompute/recompute.h"

#define TESSERA_PLANNER(Class)                               \
  extern "C" const ::tessera::Planner* tessera_planner_1() { \
    static const Class planner;                              \
    return &planner;                                         \
  }

#define TESSERA_RECOMPUTE(Class)                                         \
  extern "C" const ::tessera::RecomputeStrategy* tessera_recompute_1() { \
    static const Class strategy;                                         \
    return &strategy;                                                    \
  }

namespace tessera {

// Loads the library and adds its planner (plan.h); the library stays loaded. Throws ConfigError
// with the file and the reason: it cannot be loaded, has no planner for this version, or one whose
// name is taken.
const Planner& load_planner(const std::string& path);
// The same with its strategy (recompute.h).
const RecomputeStrategy& load_recompute_strategy(const std::string& path);

}  // namespace tessera
