#include "tessera/models/training/trainer.h"

#include "tessera/models/training/training_loop.h"
#include "tessera/models/training/training_setup.h"

namespace tessera {

TrainResult train(const Config& config, const Print& print, const TrainOptions& options) {
  require_fit(config);
  TrainingSetup setup = set_up_training(config, print, options);
  return run_training(setup, options.stop);
}

}  // namespace tessera
