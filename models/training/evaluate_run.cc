#include "tessera/models/training/evaluate_run.h"

#include <chrono>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/run/checkpoint_folder.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/run/weights_file.h"
#include "tessera/models/training/device_choice.h"
#include "tessera/models/training/evaluator.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/error.h"

namespace tessera {

namespace {

// Says what it loaded.
std::string load_trained(Session& session, const Config& config, const std::string& run_dir,
                         const std::string& checkpoint, TrainResult& result) {
  if (!checkpoint.empty()) {
    const bool name = checkpoint == "best" || checkpoint == "latest";
    const CheckpointFile file(
        checkpoint_file(name ? checkpoints_path(run_dir) + "/" + checkpoint : checkpoint));
    file.load(session.store().persistent());
    const TrainingState& state = file.state();
    const bool is_best = config.checkpoint.best != BestBy::kNone && state.step == state.best_step;
    result.checkpoint = file.path();
    result.steps = state.step;
    result.chosen_on_test = is_best && !config.data.validation.any();
    return fmt::format("{}, after step {}{}", file.path(), state.step,
                       !is_best ? ""
                       : config.data.validation.any()
                           ? ", the best on the validation images"
                           : ", chosen on the test images that now test it (data.validation keeps "
                             "them apart)");
  }
  const std::string path = weights_path(run_dir);
  if (!std::filesystem::exists(path))
    throw CheckpointError(fmt::format(
        "run folder: there is no '{}', as the training did not reach its end; --checkpoint=latest "
        "evaluates where it stands",
        path));
  session.load_weights(path);
  const std::optional<int64_t> step = weights_step(path);
  result.checkpoint = path;
  result.steps = step.value_or(-1);
  if (!step) return path;
  const std::optional<int64_t> latest = CheckpointFolder(checkpoints_path(run_dir)).named("latest");
  return fmt::format("{}, after step {}{}", path, *step,
                     latest.value_or(0) <= *step
                         ? ""
                         : fmt::format("; the training has gone on to step {}, which "
                                       "--checkpoint=latest evaluates",
                                       *latest));
}

}  // namespace

TrainResult evaluate_run(const std::string& run_dir, const std::string& checkpoint,
                         const std::vector<std::string>& overrides, const Print& print) {
  if (!std::filesystem::exists(resolved_config_path(run_dir)))
    throw ConfigError(fmt::format("run folder: there is no '{}'; give the folder of a training",
                                  resolved_config_path(run_dir)));
  Config config = load_config(resolved_config_path(run_dir), overrides);
  require_fit(config, Purpose::evaluation);
  // The resolved configuration tells the normalization, but for runs of programs that measured
  // none.
  const auto [data, session, normalization] =
      open_run(config, Purpose::evaluation,
               [&](const Dataset& test) { return former_normalization(config, test); });
  check_classes(config, *data.test);
  Evaluator evaluator(*session, data.test, loader_options(config, false, session->device()),
                      config.model.classes);
  session->bind();
  TrainResult result;
  const std::string loaded = load_trained(*session, config, run_dir, checkpoint, result);
  print(device_line(config));
  print("evaluating " + loaded + (config.ema.decay ? ", the averaged weights (ema)" : ""));
  print(data.test->describe());
  const auto start = std::chrono::steady_clock::now();
  const Evaluation tally = *evaluator.run();
  result.test_images = tally.images;
  result.test_top5 = tally.top5();
  result.confusion = tally.confusion;
  result.test_accuracy = tally.accuracy();
  result.test_loss = tally.mean_loss();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace tessera
