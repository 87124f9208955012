#include "tessera/models/study/evaluate_run.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/models/config/config_data.h"
#include "tessera/models/data/sets/published.h"
#include "tessera/models/data/sets/subset.h"
#include "tessera/models/run/array_file.h"
#include "tessera/models/run/checkpoint_folder.h"
#include "tessera/models/run/environment.h"
#include "tessera/models/run/inference.h"
#include "tessera/models/run/pretrained.h"
#include "tessera/models/run/record_file.h"
#include "tessera/models/run/run_folder.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/training/evaluator.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/session.h"
#include "tessera/runtime/context.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/text/json.h"
#include "tessera/runtime/text/spelling.h"

namespace tessera {

namespace {

// Returns data.name and data.root.
std::pair<std::string, std::string> named(const std::string& data) {
  std::error_code error;
  if (std::filesystem::is_directory(data, error)) return {"image_folder", data};
  if (std::filesystem::exists(data, error)) return {"hdf5", data};
  const std::vector<std::string>& known = data_names();
  const size_t equals = data.find('=');
  const std::string name = data.substr(0, equals);
  const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
  if (equals != data.npos && is_known) return {name, data.substr(equals + 1)};
  if (equals != data.npos) throw ConfigError("--data: " + unknown_name(name, known));
  throw DataError(fmt::format(
      "--data: '{}' does not exist; use a folder of class folders, an HDF5 file{}", data,
      is_known ? fmt::format(", or the folder of that data set: {}=PATH", name)
               : std::string(", or NAME=PATH, such as cifar10=data/cifar10")));
}

void check_channels(const PublishedSet& set, const std::string& inference) {
  const std::optional<ImageShape> told = input_in(inference);
  if (told && told->channels != set.shape.channels)
    throw ConfigError(fmt::format(
        "--data: the images of {} have {}, but those of the run have {}; use a folder of pictures, "
        "which are converted",
        set.name, set.shape.channels == 1 ? "one channel" : "three channels", told->channels));
}

// Adds the size to which pictures of a folder are resized.
void add_picture_size(const Config& run, const std::string& inference,
                      std::vector<std::string>& overrides) {
  const std::optional<ImageShape> told = input_in(inference);
  const ImageShape image = told ? *told : image_shape(run.data);
  if (image.height != image.width)
    throw ConfigError(fmt::format(
        "--data: the run's images are {}x{} pixels, but pictures of a folder become square; use "
        "an HDF5 file with images of that size",
        image.height, image.width));
  // A run that trained on crops was tested on larger images.
  if (run.data.name != "image_folder")
    overrides.push_back(fmt::format("data.image_size={}", image.height));
  overrides.push_back(fmt::format("data.channels={}", image.channels));
}

std::string list(const std::vector<float>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

// Adds the configuration's normalization, or that of `inference` for the few runs without one.
void add_normalization(const Config& run, const std::string& inference,
                       std::vector<std::string>& overrides) {
  if (!run.data.mean.empty()) return;
  const std::optional<Normalization> told = normalization_in(inference);
  if (!told)
    throw ConfigError(
        "--data: the normalization of the run's images is not recorded; evaluate the run on the "
        "same kind of data with data.root=PATH, or set data.name, data.root, data.mean and "
        "data.std");
  overrides.push_back("data.mean=" + list(told->mean));
  overrides.push_back("data.std=" + list(told->std));
}

[[noreturn]] void refuse(const std::string& place, const std::vector<std::string>& unknown,
                         const std::vector<std::string>& known) {
  constexpr size_t kMax = 8, kMaxKnown = 20;
  std::vector<std::string> lines;
  for (const std::string& name : unknown) {
    if (lines.size() == kMax) break;
    const std::string near = nearest_spelling(name, known);
    lines.push_back(fmt::format("'{}'{}", name,
                                near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near)));
  }
  if (unknown.size() > kMax) lines.push_back(fmt::format("and {} more", unknown.size() - kMax));
  const size_t shown = std::min(known.size(), kMaxKnown);
  throw DataError(fmt::format(
      "{}: the run has no classes {}; name the classes as the run does, or leave them out (the run "
      "has {}{})",
      place, fmt::join(lines, ", "), fmt::join(known.begin(), known.begin() + shown, ", "),
      shown < known.size() ? fmt::format(" and {} more", known.size() - shown) : ""));
}

bool is_same_data(const DataConfig& a, const DataConfig& b) {
  std::error_code error;
  return a.name == b.name &&
         (a.root == b.root || std::filesystem::equivalent(a.root, b.root, error));
}

// Names the images that chose the run's best checkpoint. Requires that they are not the test data.
const char* fairly_chosen(const Config& trained) {
  return trained.data.validation.any() ? ", the best on the validation images"
                                       : ", the best on the test images of the training";
}

// Loads the weights and returns their description. `trained` is the configuration of the training.
std::string load_trained(Session& session, const Config& config, const Config& trained,
                         const NetworkOrigin& origin, bool is_checkpoint, TrainResult& result) {
  const std::string path = origin.weights_file();
  result.checkpoint = path;
  if (!origin.is_run()) {
    Pretrained file(path);
    const std::string told = file.match(config, session.image());
    file.load(session.store());
    result.steps = -1;
    return told;
  }
  if (is_checkpoint) {
    const CheckpointFile file(path);
    file.load(session.store().persistent());
    const TrainingState& state = file.state();
    const bool is_best = config.checkpoint.best != BestBy::kNone && state.step == state.best_step;
    result.steps = state.step;
    result.chosen_on_test =
        is_best && !trained.data.validation.any() && is_same_data(config.data, trained.data);
    return fmt::format("{}, after step {}{}", path, state.step,
                       !is_best ? ""
                       : !result.chosen_on_test
                           ? fairly_chosen(trained)
                           : ", which was chosen on these same test images "
                             "(set data.validation to choose on other images)");
  }
  session.load_weights(path);
  const std::optional<int64_t> step = weights_step(path);
  result.steps = step.value_or(-1);
  if (!step) return path;
  const CheckpointFolder folder(checkpoints_path(origin.run()));
  const std::optional<int64_t> latest = folder.named("latest");
  const bool is_best = trained.data.validation.any() && folder.named("best") == step;
  return fmt::format("{}, after step {}{}", path, *step,
                     is_best ? fairly_chosen(trained)
                     : latest.value_or(0) <= *step
                         ? ""
                         : fmt::format("; the training has continued to step {}, which "
                                       "--checkpoint=latest evaluates",
                                       *latest));
}

// Returns a warning if the run was trained on some of the images, as split.csv of the run tells.
std::string trained_on(const std::string& run_dir, const Dataset& test) {
  std::set<std::string> lines;
  std::istringstream split(run_file(run_dir, "split.csv"));
  for (std::string line; std::getline(split, line);) lines.insert(line);
  int64_t trained = 0;
  for (int64_t i = 0; !lines.empty() && i < test.count(); ++i)
    trained += lines.contains("train," + csv_field(test.file(i)));
  if (trained == 0) return "";
  return fmt::format(
      "evaluation: the run was trained on {} of these {} images (split.csv in its folder), so this "
      "is no test; --data takes other images",
      trained, test.count());
}

// Returns a remark if other data have images of another size than the run's; else "".
std::string size_remark(const Config& config, const Config& trained, const std::string& inference,
                        const Dataset& test) {
  const std::optional<ImageShape> told = input_in(inference);
  if (!told || *told == test.shape() || is_same_data(config.data, trained.data)) return "";
  return fmt::format("\nthe run was trained with images [{}x{}x{}], but those of {} are [{}x{}x{}]",
                     told->height, told->width, told->channels, test.name(), test.height(),
                     test.width(), test.channels());
}

RunReport report_of(const Run& run, const std::string& origin, const std::string& loaded,
                    const std::string& data, const Evaluation& evaluation, const Dataset& test) {
  const Config& config = run.config();
  RunReport report;
  report.title = fmt::format("{} of {} on {}", config.model.name, origin,
                             config.data.root.empty() ? config.data.name : config.data.root);
  report.facts = {{"weights", loaded},
                  {"data", data},
                  {"device", device_text(run.device())},
                  {"ended", utc_text(std::time(nullptr))},
                  {"program", std::string("Tessera ") + tessera_version()}};
  report.config = print_config(config);
  add_evaluation(report, evaluation, test);
  return report;
}

Json json_of(const ClassAverage& mean) {
  return Json::object({{"precision", mean.precision}, {"recall", mean.recall}, {"f1", mean.f1}});
}

Json calibration_json(const Calibration& calibration) {
  Table bins({{"images", nullptr}, {"confidence", nullptr}, {"accuracy", nullptr}});
  for (const Calibration::Bin& bin : calibration.bins) {
    const bool any = bin.images > 0;
    bins.add({bin.images, number(any ? bin.confidence() : NAN, 4),
              number(any ? bin.accuracy() : NAN, 4)});
  }
  return bins.json();
}

Json confusion_json(const ConfusionMatrix& confusion) {
  std::vector<Json> rows;
  for (int64_t truth = 0; truth < confusion.classes; ++truth)
    rows.push_back(Json::list_of(
        std::span(confusion.counts).subspan(truth * confusion.classes, confusion.classes)));
  return Json::list(rows);
}

}  // namespace

std::vector<std::string> data_overrides(const std::string& data, const Config& run,
                                        const std::string& inference) {
  const auto [name, root] = named(data);
  // Quoted, with characters that are special in YAML escaped.
  std::vector<std::string> overrides{"data.name=" + name, "data.root=" + Json(root).text(),
                                     "~data.train_count", "~data.test_count", "~data.validation"};
  if (name != run.data.name) {
    overrides.emplace_back("~data.image_size");
    overrides.emplace_back("~data.resize");
    overrides.emplace_back("~data.damaged");
  }
  if (const PublishedSet* set = find_published(name)) check_channels(*set, inference);
  if (name == "image_folder") {
    add_picture_size(run, inference, overrides);
    overrides.emplace_back("data.test_fraction=0");
  }
  add_normalization(run, inference, overrides);
  return overrides;
}

std::shared_ptr<const Dataset> under_classes_of(const Config& config, const std::string& inference,
                                                std::shared_ptr<const Dataset> data,
                                                const Print& print) {
  const std::vector<std::string> known = class_names_in(inference);
  std::vector<std::string> names;
  for (const std::string& name : data->class_names()) names.push_back(name_in_inference(name));
  if (names == known || names.empty() || known.empty()) {
    if (names != known)
      print(fmt::format("classes are matched by number, because {} has no class names",
                        names.empty() ? data->name() : "the run"));
    if (data->classes() > config.model.classes)
      throw ConfigError(fmt::format(
          "data: {} has {} classes, but the model has only {}, and classes are matched by number; "
          "remove the images of the other classes",
          data->name(), data->classes(), config.model.classes));
    return data;
  }
  const std::vector<int64_t> images = images_of_classes(*data);
  std::vector<int64_t> labels(names.size(), -1);
  std::vector<std::string> unknown;
  int64_t found = 0;
  for (size_t c = 0; c < names.size(); ++c) {
    const auto at = std::find(known.begin(), known.end(), names[c]);
    if (at != known.end())
      labels[c] = at - known.begin();
    else if (images[c] > 0)
      unknown.push_back(names[c]);
    found += at != known.end() && images[c] > 0 ? 1 : 0;
  }
  if (!unknown.empty())
    refuse(config.data.root.empty() ? data->name() : config.data.root, unknown, known);
  print(fmt::format("classes are matched by name: images of {} of the run's {}", found,
                    known.size()));
  return relabelled(std::move(data), std::move(labels), static_cast<int>(known.size()), known);
}

Report evaluation_report(const RunEvaluation& result, size_t most) {
  const ClassReport classes = class_report(result.confusion);
  Report report;
  report.add("weights", result.checkpoint)
      .add("step", result.steps < 0 ? Json(nullptr) : Json(result.steps))
      .add("chosen_on_the_test_set", result.chosen_on_test)
      .add("precision", result.precision)
      .add("images", result.test_images)
      .add("accuracy", result.test_accuracy)
      .add("top5_accuracy", result.test_top5)
      .add("loss", result.test_loss)
      .add("calibration_error", result.calibration.error())
      .add("seconds", rounded(result.seconds, 3))
      .add("macro_average", json_of(classes.macro))
      .add("weighted_average", json_of(classes.weighted));
  add_classes(report, classes, result.class_names, most);
  report.add("calibration", calibration_json(result.calibration))
      .add("confusion", confusion_json(result.confusion))
      .line(fmt::format("expected calibration error {:.2f} % ({} bins)",
                        100 * result.calibration.error(), Calibration::kBins));
  return report;
}

RunEvaluation evaluate_run(const NetworkSource& source, const EvaluateOptions& options,
                           const Print& print) {
  if (!source.weights.empty() && options.data.empty())
    throw ConfigError("eval: --weights needs --data, because a file of weights names no data");
  const NetworkOrigin origin(source);
  const Config trained = origin.config();
  const std::string& inference = origin.inference();
  std::vector<std::string> overrides;
  if (!options.data.empty()) overrides = data_overrides(options.data, trained, inference);
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  const Config config = origin.config(overrides);
  Run run(config, Purpose::evaluation);
  const SettingsScope settings(run.settings());
  require_fit_ahead(run);
  // The resolved configuration has the normalization, except in runs of older programs that
  // measured none.
  run.open([&](const Dataset& test) { return former_normalization(config, test); });
  require_fit(run);
  Session& session = run.session();
  const std::string sizes = size_remark(config, trained, inference, *run.data().test);
  std::string described = run.data().test->describe() + sizes;
  const std::shared_ptr<const Dataset> test =
      under_classes_of(config, inference, run.data().test,
                       [&](const std::string& line) { described += "\n" + line; });
  Evaluator evaluator(run, test);
  session.bind();
  RunEvaluation result;
  std::string loaded;
  try {
    loaded = load_trained(session, config, trained, origin, !source.checkpoint.empty(), result);
  } catch (CheckpointError& error) {
    error.append(sizes);
    throw;
  }
  if (config.ema.decay) loaded += ", the averaged weights (ema)";
  if (origin.is_run()) {
    const std::string changes = environment_changes(source.run, session.device());
    if (!changes.empty())
      log(LogLevel::warning,
          "evaluation: the last bits may differ from those of the training: " + changes);
    const bool same = is_same_data(config.data, trained.data);
    const std::string warning = same ? trained_on(source.run, *run.data().test) : "";
    if (!warning.empty()) log(LogLevel::warning, warning);
  }
  print(device_line(run));
  const bool whole = config.precision == Precision::float32;
  print("evaluating " + loaded + (whole ? "" : ", in " + config.precision.text()));
  print(described);
  const auto start = std::chrono::steady_clock::now();
  const Evaluation tally = *evaluator.run();
  result.test_images = tally.images;
  result.test_top5 = tally.top5();
  result.confusion = tally.confusion;
  result.calibration = tally.calibration;
  result.precision = config.precision.text();
  result.class_names = test->class_names();
  result.test_accuracy = tally.accuracy();
  result.test_loss = tally.mean_loss();
  result.seconds = seconds_since(start);
  if (options.report)
    result.report = std::make_shared<const RunReport>(report_of(
        run, origin.is_run() ? source.run : source.weights, loaded, described, tally, *test));
  return result;
}

}  // namespace tessera
