// What a configuration's training step needs, asked before anything runs.
#pragma once

#include <string>

#include "tessera/graph/plan_report.h"
#include "tessera/models/training/run.h"

namespace tessera {

// What a training step needs, in the arena that it shares with the other steps of the training,
// and, in its parts, what the whole training does, as far as is known without opening the data.
// Throws ConfigError for an unknown pass.
PlanReport plan(const Run& run);

// What a training step asks for in eager mode, whatever config.mode says: nothing is known of it
// ahead, so two steps run on generated batches, and the second is recorded
// (engine/allocation_trace.h).
PlanPicture eager_picture(const Run& run, const std::string& title);

}  // namespace tessera
