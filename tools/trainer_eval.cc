// trainer eval: evaluates a trained network on its test images or on others; trainer predict:
// prints the classes of pictures.
#include <limits>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/models/run/metrics.h"
#include "tessera/models/run/run_report.h"
#include "tessera/models/study/evaluate_run.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/number.h"
#include "tessera/tools/output.h"
#include "tessera/tools/predict.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {

namespace {

struct EvalArguments {
  NetworkSource network;
  std::string report;
  EvaluateOptions options;
  bool json = false, all_classes = false;
};

int run_eval(EvalArguments arguments, bool quiet) {
  arguments.options.report = !arguments.report.empty();
  for (const std::string& text : arguments.options.overrides)
    for (const char* group : {"train.", "optimizer.", "schedule.", "checkpoint."})
      if (text.substr(text.starts_with('~') ? 1 : 0).starts_with(group))
        throw ConfigError(
            fmt::format("eval: '{}' has no effect on an evaluation; remove it", text));
  const RunEvaluation result = evaluate_run(arguments.network, arguments.options,
                                            quiet || arguments.json ? print_nothing : print_line);
  if (result.report != nullptr) write_file(arguments.report, report_html(*result.report));
  constexpr size_t kFew = 20, kAll = std::numeric_limits<size_t>::max();
  if (arguments.json || !quiet)
    print_report(evaluation_report(result, arguments.all_classes ? kAll : kFew), arguments.json,
                 -1);
  if (arguments.json) return 0;
  const std::string top5 =
      result.confusion.classes > 5 ? fmt::format(", top-5 {:.2f} %", 100 * result.test_top5) : "";
  print_line(fmt::format("test accuracy {:.2f} %{} (loss {})", 100 * result.test_accuracy, top5,
                         loss_text(result.test_loss)));
  return 0;
}

}  // namespace

void add_eval_command(CLI::App& app, Command& command, const bool& quiet) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* sub = add_command(app, command, "eval", "evaluate a trained network",
                              [arguments, &quiet] { return run_eval(*arguments, quiet); });
  add_network_options(*sub, arguments->network);
  sub->add_option("--data", arguments->options.data,
                  "other data than the run's: a folder of class folders, an HDF5 file, or "
                  "NAME=PATH, such as cifar10=data/cifar10");
  sub->add_option(
      "--report", arguments->report,
      "write an HTML file: metrics of each class, confusion matrix, calibration, worst errors");
  sub->add_option("overrides", arguments->options.overrides, "key=value, dotted");
  sub->add_flag(
      "--all-classes", arguments->all_classes,
      "show the metrics of every class; by default only the ten worst if there are more than 20");
  sub->add_flag("--json", arguments->json,
                "as JSON, with the metrics of every class, the confusion matrix and the bins of "
                "the calibration error");
}

void add_predict_command(CLI::App& app, Command& command) {
  auto options = std::make_shared<PredictOptions>();
  add_predict_options(*add_command(app, command, "predict", "classify pictures",
                                   [options] { return predict(*options); }),
                      *options);
}

}  // namespace tessera
