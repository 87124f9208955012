// Planners and recomputation strategies from shared libraries. A library has one, named by a line
// at the end of its source:
//
//   class Mine : public tessera::Planner { ... };        or: tessera::RecomputeStrategy
//   TESSERA_PLANNER(Mine)                                    TESSERA_RECOMPUTE(Mine)
//
// Build a library with the compiler and the version of Tessera that load it, because C++ objects
// are exchanged. The symbols contain a number that grows when plan.h or recompute.h changes.
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
// with the file and the reason: the library cannot be loaded, has no planner for this version, or
// the planner's name is already registered.
const Planner& load_planner(const std::string& path);
// Loads the library and adds its strategy (recompute.h). Throws as load_planner().
const RecomputeStrategy& load_recompute_strategy(const std::string& path);

}  // namespace tessera
