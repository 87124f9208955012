// trainer train: trains a configuration, the default command.
#include <csignal>
#include <cstring>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/models/run/environment.h"
#include "tessera/models/study/plan.h"
#include "tessera/models/training/training_console.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/exchange/exchange.h"
#include "tessera/runtime/log.h"
#include "tessera/runtime/text/number.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {
namespace {

struct TrainArguments {
  std::string config, command;
  std::vector<std::string> overrides;
  bool verify_plan = false;
  TrainOptions train;
  ConfigLook look;
};

void print_result(const Config& config, const TrainResult& result, bool quiet) {
  if (const std::string table = result.confusion.text(); !quiet && !table.empty())
    print_line(table);
  if (!quiet) print_report(result_report(config, result), false);
  print_line(fmt::format(
      "final test accuracy {:.2f} % (loss {}, {} steps, {:.4g} epochs, {:.1f} s){}",
      100 * result.test_accuracy, loss_text(result.test_loss), result.steps, result.epochs,
      result.seconds,
      result.best_kept ? fmt::format(" with the best weights, after step {}", result.best_step)
                       : ""));
}

int tell_result(const Config& config, const TrainResult& result, bool quiet) {
  if (result.stopped_by != 0) {
    print_line(fmt::format(
        "stopped by SIG{} after step {}; {}", sigabbrev_np(result.stopped_by), result.steps,
        result.checkpoint.empty() ? "no checkpoint is kept, as checkpoint.keep is 0"
                                  : "continue with --resume from " + result.checkpoint));
    return 128 + result.stopped_by;
  }
  print_result(config, result, quiet);
  return 0;
}

// Only warns if standard output was lost, because the results of a training are in its folder.
void forgive_lost_lines(const Config& config) {
  const std::string fault = take_output_fault();
  if (fault.empty()) return;
  log(LogLevel::warning,
      fmt::format("training: {}; the results are in '{}'", fault, config.run.dir));
}

TrainResult train_and_print(const Config& config, const TrainOptions& options) {
  try {
    return train(config, options.quiet ? print_nothing : print_line, options);
  } catch (const ResultNotKept& error) {
    print_result(config, error.result, options.quiet);
    throw;
  }
}

int run_train(const TrainArguments& arguments, bool quiet) {
  if (look_at_config(arguments.look, arguments.config, arguments.overrides, arguments.train))
    return 0;
  const Config config = load_config(arguments.config, arguments.overrides);
  if (arguments.verify_plan) print_line(verify_plan(config).text());
  const std::shared_ptr<Exchange> exchange = join_others(config);
  TrainOptions options = stoppable(arguments.train);
  options.exchange = exchange;
  const bool follows = exchange && exchange->rank() > 0;
  options.quiet = quiet || follows;
  options.command = arguments.command;
  const TrainResult result = train_and_print(config, options);
  if (follows) return result.stopped_by != 0 ? 128 + result.stopped_by : 0;
  const int code = tell_result(config, result, quiet);
  forgive_lost_lines(config);
  return code;
}

}  // namespace

CLI::App* add_train_command(CLI::App& app, Command& command, const bool& quiet,
                            const std::string& words) {
  auto arguments = std::make_shared<TrainArguments>();
  arguments->command = words;
  CLI::App* train = add_command(app, command, "train", "train a model (the default command)",
                                [arguments, &quiet] { return run_train(*arguments, quiet); });
  train->add_option("--config", arguments->config, "YAML file")->required();
  train->add_option("overrides", arguments->overrides, "key=value, dotted: train.steps=50");
  train->add_flag("--verify-plan", arguments->verify_plan,
                  "first run some steps with guarded memory and compare with an unplanned run");
  add_gpu_flags(*train, arguments->overrides);
  train->add_flag("--resume{auto}", arguments->train.resume,
                  "continue from the newest valid checkpoint of the run "
                  "folder, or from =PATH: a run folder or a checkpoint");
  train->add_flag("--overwrite", arguments->train.overwrite,
                  "start a new run in a folder that already has one");
  add_config_look(*train, arguments->look);
  exclude(*train, "--overwrite", {"--resume"});
  exclude(*train, "--verify-plan", {"--print-config"});
  return train;
}

}  // namespace tessera
