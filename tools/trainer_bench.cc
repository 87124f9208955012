// trainer bench: measures the speed of a training step, and what contributes to it.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/graph/lower.h"
#include "tessera/models/study/bench.h"
#include "tessera/models/training/run.h"
#include "tessera/tools/ablation.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {
namespace {

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  int64_t steps = 50, repeat = 0;
  bool json = false, ablation = false, infer = false;
  CompileOptions compile;
};

int run_inference(const Arguments& arguments) {
  const InferenceBench r =
      bench_inference(load_config(arguments.config, arguments.overrides), arguments.steps);
  const auto mib = [](size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  print_line(
      arguments.json
          ? r.json()
          : fmt::format("one image {:.2f} ms (p99 {:.2f})  {:.1f} images/s in batches of {}  "
                        "load {:.1f} ms  weights {:.1f} MiB, other memory {:.1f} (batch {:.1f})  "
                        "{} threads  {} kernels",
                        r.p50_ms, r.p99_ms, r.images_per_second, r.batch, r.load_ms,
                        mib(r.one.weights), mib(r.one.slots + r.one.arena),
                        mib(r.many.slots + r.many.arena), r.threads, r.kernels));
  return 0;
}

int run(const Arguments& arguments) {
  if (arguments.config.empty()) throw ConfigError("bench: --config F or --model NAME is needed");
  if (arguments.infer) return run_inference(arguments);
  if (arguments.ablation) {
    print_bench_ablation(arguments.config, arguments.overrides, arguments.steps, arguments.repeat,
                         arguments.json);
    return 0;
  }
  const Run run = shared_run(load_config(arguments.config, arguments.overrides));
  if (arguments.repeat > 0) {
    const RepeatedBench all =
        bench_repeatedly(run, arguments.steps, arguments.repeat, arguments.compile);
    if (!run.leads()) return 0;
    if (!arguments.json) print_line(device_line(run));
    print_line(arguments.json ? all.json() : all.text());
    return 0;
  }
  const BenchResult r = bench(run, arguments.steps, arguments.compile);
  if (!run.leads()) return 0;
  if (arguments.json) {
    print_line(r.json());
  } else {
    print_line(device_line(run));  // after all checks, so that an error prints nothing else
    print_line(fmt::format(
        "{:.1f} images/s  step {:.2f} ms (p95 {:.2f})  first {:.2f} ms  compile {:.2f} ms"
        "  peak {:.1f} MiB  {} threads  {} kernels  loss {:.4f}",
        r.images_per_second, r.step_ms_p50, r.step_ms_p95, r.first_step_ms, r.compile_ms,
        static_cast<double>(r.peak_bytes) / (1 << 20), r.threads, r.kernels, r.loss));
    if (r.processes > 1)
      print_line(fmt::format("{} processes; this one waited for others in {:.1f} % of the time",
                             r.processes, 100 * r.waited));
  }
  return 0;
}

}  // namespace

void add_bench_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* bench = app.add_subcommand("bench", "time the training step");
  add_config_options(*bench, arguments->config, arguments->overrides);
  bench->add_option("--steps", arguments->steps, "steps to time")->check(CLI::Range(1, 1000000));
  bench
      ->add_option("--repeat", arguments->repeat,
                   "number of repetitions: shows median, spread, and the ops whose time varies;\n"
                   "with --ablation: rounds of the table, instead of 3")
      ->check(CLI::Range(1, 10000));
  add_gpu_flags(*bench, arguments->overrides);
  bench->add_flag("--json", arguments->json, "as JSON");
  bench
      ->add_option("--disable-pass", arguments->compile.disabled_passes,
                   "disable a pass; may be repeated: " + pass_names())
      ->allow_extra_args(false);
  bench
      ->add_flag("--ablation", arguments->ablation,
                 "measure each technique: time and bytes without each pass, and\n"
                 "with other planners, instruction sets and one thread")
      ->excludes(bench->get_option("--disable-pass"));
  bench
      ->add_flag("--infer", arguments->infer,
                 "time inference instead: single images, and batches of data.batch;\n"
                 "--steps is the number of each")
      ->excludes(bench->get_option("--disable-pass"))
      ->excludes(bench->get_option("--ablation"))
      ->excludes(bench->get_option("--repeat"));
  bench->callback([arguments, &command] { command = [arguments] { return run(*arguments); }; });
}

}  // namespace tessera
