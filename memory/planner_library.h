// Planners out of shared libraries. A library has one, named by a line at the end of its source:
//
//   class Mine : public tessera::Planner { ... };
//   TESSERA_PLANNER(Mine)
//
// Build it with the compiler and the version of Tessera that load it: a Planner crosses as a C++
// object. The symbol carries a number that grows when plan.h changes.
#pragma once

#include <string>

#include "tessera/memory/plan.h"

#define TESSERA_PLANNER(Class)                               \
  extern "C" const ::tessera::Planner* tessera_planner_1() { \
    static const Class planner;                              \
    return &planner;                                         \
  }

namespace tessera {

// Loads the library and adds its planner (plan.h); the library stays loaded. Throws ConfigError
// with the file and the reason: it cannot be loaded, has no planner for this version, or one whose
// name is taken.
const Planner& load_planner(const std::string& path);

}  // namespace tessera
