// Everything that a training does before its first step, without writing anything.
#pragma once

#include "tessera/models/config/config.h"
#include "tessera/models/training/train_options.h"

namespace tessera {

// Opens the data, builds the model and plans its steps, then says what training would do. Throws
// what train() would throw before its first step with these options, but that another process may
// be training in the run folder: that it does not look for, as it would have to lock it.
void dry_run(const Config& config, const Print& print, const TrainOptions& options = {});

}  // namespace tessera
