// trainer bench: measures the speed of a training step, and what contributes to it.
#include <memory>

#include <CLI/CLI.hpp>

#include "tessera/graph/lower.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/run.h"
#include "tessera/tools/ablation.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {
namespace {

struct BenchArguments {
  std::string config;
  std::vector<std::string> overrides;
  int64_t steps = 50, repeat = 0;
  bool json = false, ablation = false, infer = false;
  CompileOptions compile;
};

int run_inference(const BenchArguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  print_report(bench_inference(config, arguments.steps), arguments.json, -1);
  return 0;
}

int run_bench(const BenchArguments& arguments) {
  if (arguments.config.empty()) throw ConfigError("bench: --config F or --model NAME is needed");
  if (arguments.infer) return run_inference(arguments);
  if (arguments.ablation) {
    print_bench_ablation(arguments.config, arguments.overrides, arguments.steps, arguments.repeat,
                         arguments.json);
    return 0;
  }
  const Run run = shared_run(load_config(arguments.config, arguments.overrides));
  const Report report =
      arguments.repeat > 0
          ? bench_repeatedly(run, arguments.steps, arguments.repeat, arguments.compile)
          : bench(run, arguments.steps, arguments.compile).report;
  if (!run.leads()) return 0;
  if (!arguments.json) print_line(device_line(run));  // after all checks
  print_report(report, arguments.json, -1);
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* bench = add_command(app, command, "bench", "time the training step",
                                [arguments] { return run_bench(*arguments); });
  add_config_options(*bench, arguments->config, arguments->overrides);
  bench->add_option("--steps", arguments->steps, "steps to time")->check(CLI::Range(1, 1000000));
  bench
      ->add_option("--repeat", arguments->repeat,
                   "number of repetitions: shows median, spread, and the ops whose time varies;\n"
                   "with --ablation: rounds of the table, instead of 3")
      ->check(CLI::Range(1, 10000));
  add_gpu_flags(*bench, arguments->overrides);
  bench->add_flag("--json", arguments->json, "as JSON");
  add_disable_pass(*bench, arguments->compile);
  bench->add_flag("--ablation", arguments->ablation,
                  "measure each technique: time and bytes without each pass, and\n"
                  "with other planners, instruction sets and one thread");
  bench->add_flag("--infer", arguments->infer,
                  "time inference instead: single images, and batches of data.batch;\n"
                  "--steps is the number of each");
  exclude(*bench, "--ablation", {"--disable-pass"});
  exclude(*bench, "--infer", {"--disable-pass", "--ablation", "--repeat"});
}

}  // namespace tessera
