// Everything that a training does before its first step, without writing anything.
#pragma once

#include "tessera/models/config.h"
#include "tessera/models/train_options.h"

namespace tessera {

// Opens the data, builds the model and plans its steps, then says what training would do. Throws
// what train() would throw before its first step.
void dry_run(const Config& config, const Print& print);

}  // namespace tessera
