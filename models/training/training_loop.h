// The loop of a training: batches, steps, evaluations, checkpoints, until its end or until it is
// asked to stop.
#pragma once

#include "tessera/models/training/train_options.h"
#include "tessera/models/training/train_result.h"

namespace tessera {

struct TrainingSetup;  // training_setup.h

// Once for a setup, whose state goes along. Reads `stop` and `save` of the options. Throws as
// train() does from its first step on.
TrainResult run_training(TrainingSetup& setup, const TrainOptions& options);

}  // namespace tessera
