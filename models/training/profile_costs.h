// memory.costs: what steps cost, counted or as they were measured.
#pragma once

#include <memory>
#include <string>

#include "tessera/graph/cost_model.h"

namespace tessera {

// What the JSON of a profile begins with, and that of profiles of several networks, so that another
// version is not taken for this one.
inline constexpr const char* kProfileFormat = "tessera profile 1";
inline constexpr const char* kMachineFormat = "tessera machine 1";

// The times that a profile found (trainer profile --json, or --machine for those of several
// networks): of an op, by name, place, phase and what it computes and moves. One that is not there
// takes what is counted times the ratio, measured over counted, of the nearest of its name and
// algorithm, by operations and bytes; where there are none, of all. In older profiles "native" is
// any algorithm of a convolution but Winograd's and Eigen's. Throws DataError, which names the
// file, where the text is no profile.
std::shared_ptr<const CostModel> profile_costs(const std::string& text, const std::string& name);

// "counted", or the path of such a profile. Throws DataError where it cannot be read.
std::shared_ptr<const CostModel> costs_named(const std::string& costs);

}  // namespace tessera
