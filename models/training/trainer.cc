#include "tessera/models/training/trainer.h"

#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/training_loop.h"
#include "tessera/models/training/training_setup.h"

namespace tessera {

TrainResult train(const Config& config, const Print& print, const TrainOptions& options) {
  TrainResult result;
  with_advice(config, Purpose::training, [&] {
    require_fit(config);
    TrainingSetup setup = set_up_training(config, print, options);
    result = run_training(setup, options.stop);
  });
  return result;
}

}  // namespace tessera
