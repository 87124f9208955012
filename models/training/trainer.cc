#include "tessera/models/training/trainer.h"

#include "tessera/models/config/diagnostics.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/processes.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/training_setup.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/files/file_system.h"

namespace tessera {

FileSystem& TrainOptions::file_system() const {
  return files != nullptr ? *files : tessera::file_system();
}

TrainResult train(const Config& config, const Print& print, const TrainOptions& options) {
  const Run run = Run::shared(config, options.exchange);
  const SettingsScope settings(run.settings());
  TrainResult result;
  with_memory_advice(run, [&] {
    TrainingSetup setup = [&] {
      try {
        require_shareable(run);
        require_run_folder(config.run.dir);
        require_fit_ahead(run);
        return set_up_training(run, print, options);
      } catch (const ConfigError& error) {
        rethrow_placed(config, error);
      }
    }();
    const AbandonOnError before_the_memory_goes(options.exchange);
    result = run_training(setup, options);
  });
  return result;
}

}  // namespace tessera
