// trainer compare: several run folders side by side; trainer sweep: trainings with every
// combination of some settings.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/models/study/compare_runs.h"
#include "tessera/runtime/exchange/exchange.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {

namespace {

struct Shown {
  std::string html;
  bool json = false;

  void add_to(CLI::App& command) {
    command.add_option("--html", html, "write the table and the curves as one HTML file");
    command.add_flag("--json", json, "as JSON");
  }
  void print(const std::vector<std::string>& runs) const {
    const RunComparison all = compare_runs(runs);
    if (!html.empty()) write_file(html, all.html());
    print_report(all.report(), json);
  }
};

struct Sweeping {
  std::string config;
  std::vector<std::string> words;
  Shown shown;
};

int run_sweep(const Sweeping& arguments, TrainOptions options, bool quiet) {
  require_one_process("sweep");
  const bool silent = quiet || arguments.shown.json;
  options.quiet = true;  // no progress of the single runs
  const SweepOutcome outcome =
      sweep(arguments.config, arguments.words, silent ? print_nothing : print_line, options);
  if (outcome.stopped_by != 0) {
    print_error("sweep: stopped; the same command continues it");
    return 128 + outcome.stopped_by;
  }
  for (const std::string& line : outcome.failed) print_error("sweep: " + line);
  if (!outcome.done.empty()) arguments.shown.print(outcome.done);
  return outcome.exit_code;
}

}  // namespace

void add_compare_command(CLI::App& app, Command& command) {
  auto runs = std::make_shared<std::vector<std::string>>();
  auto shown = std::make_shared<Shown>();
  CLI::App* sub =
      add_command(app, command, "compare", "show the settings and results of several runs",
                  [runs, shown] { return shown->print(*runs), 0; });
  sub->add_option("runs", *runs, "run folders")->required();
  shown->add_to(*sub);
}

void add_sweep_command(CLI::App& app, Command& command, const bool& quiet) {
  auto arguments = std::make_shared<Sweeping>();
  CLI::App* sub = add_command(
      app, command, "sweep", "train with every combination of settings, and compare the runs",
      [arguments, &quiet] { return run_sweep(*arguments, stoppable(), quiet); });
  sub->add_option("--config", arguments->config, "YAML file")->required();
  sub->add_option("overrides", arguments->words,
                  "key=value, or key=value,value,...: each combination is a run in a folder of "
                  "run.dir. The same command continues a sweep that was interrupted");
  arguments->shown.add_to(*sub);
}

}  // namespace tessera
