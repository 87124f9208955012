// The trainer: from a configuration to a trained network.
#pragma once

#include "tessera/models/config/config.h"
#include "tessera/models/training/train_options.h"
#include "tessera/models/training/train_result.h"

namespace tessera {

// Trains as configured, writes the run folder and prints a line now and then. A training that goes
// on from a checkpoint ends with the same bits as one that never stopped. Throws ConfigError,
// DataError, DeviceError, CheckpointError when there is nothing good to resume from or the last
// checkpoint cannot be written (ResultNotKept at the end), RunFolderError when the run folder
// cannot be used, and DivergedError when the loss is not finite.
TrainResult train(const Config& config, const Print& print, const TrainOptions& options = {});

}  // namespace tessera
