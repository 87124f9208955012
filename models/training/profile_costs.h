// memory.costs: cost models for recomputation, counted or measured.
#pragma once

#include <memory>
#include <string>

#include "tessera/graph/cost_model.h"

namespace tessera {

class Json;  // runtime/text/json.h

// The first entry in the JSON of a profile, and of profiles of several networks; it identifies the
// version of the format.
inline constexpr const char* kProfileFormat = "tessera profile 1";
inline constexpr const char* kMachineFormat = "tessera machine 1";
// Throws Error if `profile` has another format than kProfileFormat.
void require_profile_format(const Json& profile);

// Returns a cost model with the times of a profile (trainer profile --json, or --machine for
// several networks). An op is found by name, module path, phase and cost. An op that is not in the
// profile costs its counted time times a ratio, measured over counted: that of the nearest ops, by
// operations and bytes, of the same name and algorithm, or else that of all ops. In older profiles
// "native" is any algorithm of a convolution except Winograd's and Eigen's. Throws DataError, which
// names the file, if the text is not a profile.
std::shared_ptr<const CostModel> profile_costs(const std::string& text, const std::string& name);

// Returns the cost model for `costs`: "counted", or the path of a profile. Throws DataError if the
// file cannot be read.
std::shared_ptr<const CostModel> costs_named(const std::string& costs);

}  // namespace tessera
