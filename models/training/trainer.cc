#include "tessera/models/training/trainer.h"

#include "tessera/models/config/config_data.h"
#include "tessera/models/config/diagnostics.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/session.h"
#include "tessera/models/training/training_loop.h"
#include "tessera/models/training/training_setup.h"

namespace tessera {

TrainResult train(const Config& config, const Print& print, const TrainOptions& options) {
  const SettingsScope settings(settings_of(config));
  TrainResult result;
  with_advice(config, Purpose::training, [&] {
    TrainingSetup setup = [&] {
      try {
        require_run_folder(config.run.dir);
        require_fit(config);
        return set_up_training(config, print, options);
      } catch (const ConfigError& error) {
        rethrow_placed(config, error);
      }
    }();
    result = run_training(setup, options);
  });
  return result;
}

}  // namespace tessera
