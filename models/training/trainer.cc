#include "tessera/models/training/trainer.h"

#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/training_loop.h"
#include "tessera/models/training/training_setup.h"
#include "tessera/runtime/error.h"

namespace tessera {

TrainResult train(const Config& config, const Print& print, const TrainOptions& options) {
  try {
    require_fit(config);
    TrainingSetup setup = set_up_training(config, print, options);
    return run_training(setup, options.stop);
  } catch (const PlanInfeasible&) {  // says so itself
    throw;
  } catch (OutOfMemory& error) {
    error.append(what_would_fit(config, Purpose::training));
    throw;
  }
}

}  // namespace tessera
