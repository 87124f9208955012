#include "tessera/models/study/dry_run.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/config/diagnostics.h"
#include "tessera/models/config/schedule.h"
#include "tessera/models/run/pretrained.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/study/plan.h"
#include "tessera/models/training/checkpointing.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/log.h"

namespace tessera {

void dry_run(const Config& config, const Print& print, const TrainOptions& options) try {
  Run run(config);
  const SettingsScope settings(run.settings());
  require_run_folder(config.run.dir);
  require_fit_ahead(run);
  const Checkpointing checkpoints(config, options, print);
  run.open({});
  require_fit(run);
  const DataSplit& data = run.data();
  checkpoints.check_machine(run.device());
  check_classes(config, *data.train);
  const CheckpointFile* beginning = checkpoints.beginning();
  const Schedule schedule =
      check_epochs(config, data.train->count(),
                   beginning != nullptr ? beginning->state().schedule_version : kScheduleVersion);
  if (!options.overwrite)
    require_room(config.run.dir,
                 Checkpointing::bytes_on_disk(config, run.session().store().persistent()));
  if (!config.model.weights.empty() && checkpoints.beginning() == nullptr) {
    Pretrained pretrained(config.model.weights);
    print(pretrained.match(config, run.image()));
    pretrained.check();
  }
  if (const std::string spare = spare_classes(config, *data.train); !spare.empty())
    log(LogLevel::warning, spare);
  for (const std::string& line : remarks_on(run)) print(line);
  print(device_line(run));
  print(data.train->describe());
  if (data.validation != nullptr) print(data.validation->describe());
  print(data.test->describe());
  const int64_t batch = run.steps().train.front();
  const int64_t steps_per_epoch = (data.train->count() + batch - 1) / batch;
  checkpoints.check_data(steps_per_epoch, data.train->count());
  const int64_t steps = config.train.total_steps(steps_per_epoch);
  print(
      fmt::format("{}, batch {}: {} steps an epoch, {} steps in all; lr {:.4g} at first, {:.4g} at "
                  "last",
                  config.model.name, batch, steps_per_epoch, steps, schedule.lr(0),
                  schedule.lr(std::max<int64_t>(0, steps - 1))));
  print(plan(config).text());
  print(fmt::format("dry run: nothing was written; training would write to {}{}", config.run.dir,
                    std::filesystem::exists(config.run.dir) ? ", which exists" : ""));
} catch (const ConfigError& error) {
  rethrow_placed(config, error);
}

}  // namespace tessera
