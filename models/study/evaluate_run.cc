#include "tessera/models/study/evaluate_run.h"

#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/run/checkpoint_folder.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/run/run_lock.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/run/weights_file.h"
#include "tessera/models/study/other_data.h"
#include "tessera/models/training/device_choice.h"
#include "tessera/models/training/evaluator.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/run.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/clock.h"

namespace tessera {

namespace {

bool is_same_data(const DataConfig& a, const DataConfig& b) {
  std::error_code error;
  return a.name == b.name &&
         (a.root == b.root || std::filesystem::equivalent(a.root, b.root, error));
}

// What chose the best checkpoint of the run, where it was not the data that now test it.
const char* fairly_chosen(const Config& trained) {
  return trained.data.validation.any() ? ", the best on the validation images"
                                       : ", the best on the test images of the training";
}

// Says what it loaded. `trained`: the configuration of the training.
std::string load_trained(Session& session, const Config& config, const Config& trained,
                         const std::string& run_dir, const std::string& checkpoint,
                         TrainResult& result) {
  refuse_hdf5_run(run_dir);
  if (!checkpoint.empty()) {
    const bool name = checkpoint == "best" || checkpoint == "latest";
    const CheckpointFile file(
        checkpoint_file(name ? checkpoints_path(run_dir) + "/" + checkpoint : checkpoint));
    file.load(session.store().persistent());
    const TrainingState& state = file.state();
    const bool is_best = config.checkpoint.best != BestBy::kNone && state.step == state.best_step;
    result.checkpoint = file.path();
    result.steps = state.step;
    result.chosen_on_test =
        is_best && !trained.data.validation.any() && is_same_data(config.data, trained.data);
    return fmt::format("{}, after step {}{}", file.path(), state.step,
                       !is_best                 ? ""
                       : !result.chosen_on_test ? fairly_chosen(trained)
                                                : ", chosen on the test images that now test it "
                                                  "(data.validation keeps them apart)");
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
  const CheckpointFolder folder(checkpoints_path(run_dir));
  const std::optional<int64_t> latest = folder.named("latest");
  const bool is_best = trained.data.validation.any() && folder.named("best") == step;
  return fmt::format("{}, after step {}{}", path, *step,
                     is_best ? fairly_chosen(trained)
                     : latest.value_or(0) <= *step
                         ? ""
                         : fmt::format("; the training has gone on to step {}, which "
                                       "--checkpoint=latest evaluates",
                                       *latest));
}

// Where other data have images of another size than the run's; else "".
std::string size_remark(const Config& config, const Config& trained, const std::string& inference,
                        const Dataset& test) {
  const std::optional<ImageShape> told = input_in(inference);
  if (!told || *told == test.shape() || is_same_data(config.data, trained.data)) return "";
  return fmt::format("\nthe run was trained with images [{}x{}x{}], those of {} are [{}x{}x{}]",
                     told->height, told->width, told->channels, test.name(), test.height(),
                     test.width(), test.channels());
}

RunReport report_of(const Run& run, const std::string& run_dir, const std::string& loaded,
                    const std::string& data, const Evaluation& evaluation, const Dataset& test) {
  const Config& config = run.config();
  RunReport report;
  report.title = fmt::format("{} of {} on {}", config.model.name, run_dir,
                             config.data.root.empty() ? config.data.name : config.data.root);
  report.facts = {{"weights", loaded},
                  {"data", data},
                  {"on", device_text(run.device())},
                  {"ended", utc_text(std::time(nullptr))},
                  {"program", std::string("Tessera ") + tessera_version()}};
  report.config = print_config(config);
  add_evaluation(report, evaluation, test);
  return report;
}

}  // namespace

RunEvaluation evaluate_run(const std::string& run_dir, const EvaluateOptions& options,
                           const Print& print) {
  const std::string resolved = resolved_config_path(run_dir);
  if (!std::filesystem::exists(resolved))
    throw ConfigError(
        fmt::format("run folder: there is no '{}'; give the folder of a training", resolved));
  const Config trained = load_resolved_config(resolved);
  const std::string inference = run_file(run_dir, "inference.json");
  std::vector<std::string> overrides;
  if (!options.data.empty()) overrides = data_overrides(options.data, trained, inference);
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  Config config = load_resolved_config(resolved, overrides);
  Run run(config, Purpose::evaluation);
  const SettingsScope settings(run.settings());
  require_fit_ahead(run);
  // The resolved configuration tells the normalization, but for runs of programs that measured
  // none.
  run.open([&](const Dataset& test) { return former_normalization(config, test); });
  require_fit(run);
  Session& session = run.session();
  const std::string sizes = size_remark(config, trained, inference, *run.data().test);
  std::string described = run.data().test->describe() + sizes;
  const std::shared_ptr<const Dataset> test =
      under_classes_of(config, inference, run.data().test,
                       [&](const std::string& line) { described += "\n" + line; });
  Evaluator evaluator(session, test, loader_options(config, false, session.device()),
                      config.model.classes);
  session.bind();
  RunEvaluation result;
  std::string loaded;
  try {
    loaded = load_trained(session, config, trained, run_dir, options.checkpoint, result);
  } catch (CheckpointError& error) {
    error.append(sizes);
    throw;
  }
  if (config.ema.decay) loaded += ", the averaged weights (ema)";
  if (const std::string changes = environment_changes(run_dir, session.device()); !changes.empty())
    log(LogLevel::warning,
        fmt::format("evaluation: its last bits may not be those of the training: {}", changes));
  print(device_line(run));
  print("evaluating " + loaded);
  print(described);
  const auto start = std::chrono::steady_clock::now();
  const Evaluation tally = *evaluator.run();
  result.test_images = tally.images;
  result.test_top5 = tally.top5();
  result.confusion = tally.confusion;
  result.calibration = tally.calibration;
  result.class_names = test->class_names();
  result.test_accuracy = tally.accuracy();
  result.test_loss = tally.mean_loss();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.report)
    result.report =
        std::make_shared<const RunReport>(report_of(run, run_dir, loaded, described, tally, *test));
  return result;
}

}  // namespace tessera
