// memory.limit: what does not fit is refused, with the reason and with what would fit.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/models/training/memory_need.h"

namespace tessera {

// Throws PlanInfeasible when the configuration has a memory.limit that is exceeded: needed,
// available, over by, by class, the tensors that set the minimum, and what would fit. Throws
// ConfigError for a limit in eager mode, whose need nobody knows before it ran. Without `data`: as
// far as is known without opening them.
void require_fit(const Config& config, Purpose purpose = Purpose::training);
void require_fit(const Config& config, const DataNeed& data, Purpose purpose);

// Opens the data of a configuration that passed require_fit(), and asks once more where opening
// them told of more. Throws what open_data() and require_fit() throw.
DataSplit open_fitting(const Config& config, Purpose purpose = Purpose::training);

// "85.1 MiB of 23.5 GiB that this machine has free; data.batch could grow to 1600": what is used of
// memory.limit or else of what the machine has free, and the largest batch that would fit; "at
// least": the search for it was ended. In eager mode, instead, that more will be asked for.
std::string headroom_text(const Config& config, const DataNeed& data, int64_t used);

}  // namespace tessera
