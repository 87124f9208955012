// memory.cost_model: cost models for recomputation, computed or measured.
#pragma once

#include <memory>
#include <string>

#include "tessera/graph/cost_model.h"

namespace tessera {

// The first entry in the JSON of a profile, and of profiles of several networks; it identifies the
// version of the format.
inline constexpr const char* kProfileFormat = "tessera profile 2";
inline constexpr const char* kMachineFormat = "tessera machine 2";

// Returns a cost model with the times of a profile (trainer profile --json, or --machine for
// several networks). An op is found by name, module path, phase and cost. An op that is not in the
// profile costs its roofline time times a ratio, measured over roofline: that of the nearest ops,
// by operations and bytes, of the same name and algorithm, or else that of all ops. Throws
// DataError, which names the file, if the text is not a profile.
std::shared_ptr<const CostModel> profile_costs(const std::string& text, const std::string& name);

// Returns the cost model of memory.cost_model: "roofline", or the path of a profile. Throws
// DataError if the file cannot be read.
std::shared_ptr<const CostModel> make_cost_model(const std::string& name);

}  // namespace tessera
