// memory.costs: what steps cost, counted or as they were measured.
#pragma once

#include <memory>
#include <string>

#include "tessera/graph/step_costs.h"

namespace tessera {

// The times that a profile found (trainer profile --json): of an op, by name, place and phase. One
// that it has not, or with other sizes, takes what is counted in the proportion of that op, of all
// of its name, or of all. Throws DataError, which names the file, where the text is no profile.
std::shared_ptr<const StepCosts> profile_costs(const std::string& text, const std::string& name);

// "counted", or the path of such a profile. Throws DataError where it cannot be read.
std::shared_ptr<const StepCosts> costs_named(const std::string& costs);

}  // namespace tessera
