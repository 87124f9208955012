// trainer plan: shows the memory that a configuration needs, before it runs.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/graph/lower.h"
#include "tessera/graph/plan_diff.h"
#include "tessera/memory/plan_draw.h"
#include "tessera/memory/recompute/recompute_text.h"
#include "tessera/models/study/plan.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/processes.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/ablation.h"
#include "tessera/tools/output.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {
namespace {

constexpr int kTooLarge = 4;

struct Arguments {
  std::string config, csv, html, svg, why, recompute;
  std::vector<std::string> overrides, beside, diff;
  int64_t max_bytes = -1, limit = -1, device_memory = -1;
  double slowdown = 0;
  int processes = 1;
  bool json = false, draw = false, max_batch = false, ablation = false, budgets = false;
  CompileOptions compile;

  bool is_drawn() const { return draw || !svg.empty(); }
};

Run planned_run(const Arguments& arguments, const Config& config) {
  const int processes = arguments.processes;
  Run run = Run::shared(config, processes > 1 ? std::make_shared<Exchange>(0, processes) : nullptr,
                        arguments.compile);
  require_shareable(run);
  return run;
}

// Writes a page with the plan, and optionally with that of other settings next to it.
void write_html(const Arguments& arguments, const Run& run) {
  std::vector<PlanPicture> pictures = {plan_picture(run)};
  if (!arguments.beside.empty()) {
    std::vector<std::string> overrides = arguments.overrides;
    overrides.insert(overrides.end(), arguments.beside.begin(), arguments.beside.end());
    pictures.push_back(
        plan_picture(planned_run(arguments, load_config(arguments.config, overrides))));
  }
  write_file(arguments.html, draw_plan_html(pictures));
  write_out(fmt::format("{}: {} tensors\n", arguments.html, pictures[0].labels.size()));
}

// Draws the plan as SVG, or for the terminal.
void draw(const Arguments& arguments, const Run& run) {
  PlanPicture drawn = plan_picture(run);
  for (size_t i = 0; i < drawn.labels.size(); ++i) {  // without the last user
    const BufferLabel& label = drawn.labels[i];
    drawn.problem.buffers[i].id =
        label.name + "  " + label.details.substr(0, label.details.find('\n'));
  }
  if (arguments.svg.empty()) {
    write_out(fmt::format("{}\n", draw_plan_text(drawn.problem, drawn.plan, 72, 24, 16)));
  } else {
    write_file(arguments.svg, draw_plan_svg(drawn.problem, drawn.plan));
    write_out(fmt::format("{}: {} tensors\n", arguments.svg, drawn.labels.size()));
  }
}

// Prints the curve of memory and time as a table, or writes a page or a drawing.
int budgets(const Arguments& arguments, const Run& run) {
  const BudgetCurve curve = budget_curve(run);
  if (!arguments.html.empty()) write_file(arguments.html, curve.html());
  if (!arguments.svg.empty()) write_file(arguments.svg, curve.svg());
  print_report(curve.report(), arguments.json, -1);
  return 0;
}

// Writes and prints what the options name besides the plan itself.
void write_asked(const Arguments& arguments, const Run& run) {
  if (!arguments.csv.empty()) write_output(arguments.csv, problem_csv(run));
  if (!arguments.recompute.empty())
    write_output(arguments.recompute, write_recompute(training_problem(run)));
  if (!arguments.html.empty()) write_html(arguments, run);
  if (arguments.is_drawn()) draw(arguments, run);
}

// Returns true if the options ask for the plan, or for nothing else.
bool is_plan_asked(const Arguments& arguments) {
  const bool answered = arguments.is_drawn() || !arguments.html.empty() || !arguments.csv.empty() ||
                        !arguments.recompute.empty() || !arguments.compile.dump_after.empty();
  return arguments.json || !arguments.why.empty() || !answered;
}

int show_plan(const Arguments& arguments, const Run& run, const PlanDevice& device) {
  write_asked(arguments, run);
  const bool reported = is_plan_asked(arguments);
  const bool checked = arguments.max_bytes >= 0 || device.memory() >= 0 || host_limit(run.config());
  if (!reported && !checked && arguments.compile.dump_after.empty()) return 0;
  const PlanReport report = plan(run);  // prints the graph of --dump-after
  const bool as_text = reported && !arguments.json && arguments.why.empty();
  if (reported)
    write_out(!arguments.why.empty() ? report.why(arguments.why)
                                     : (arguments.json ? report.json() : report.text()) + "\n");
  if (as_text) write_out(device.remarks(run, report));
  flush_out();
  const std::vector<std::string> exceeded = device.exceeded(run, report, arguments.max_bytes);
  for (const std::string& message : exceeded) fmt::print(stderr, "trainer: {}", message);
  return exceeded.empty() ? 0 : kTooLarge;
}

// Throws if another option also writes to standard output, as "--csv -" does.
void check_terminal(const Arguments& arguments) {
  if (arguments.recompute == "-" && (arguments.json || arguments.draw || arguments.csv == "-"))
    throw ConfigError(
        "plan: --export-recompute - excludes --json, --draw and --csv -; write to a file");
  if (arguments.csv != "-") return;
  const auto refuse = [](bool given, const char* option) {
    if (given)
      throw ConfigError(
          fmt::format("plan: --csv - and {} write to the same output; give --csv a file", option));
  };
  refuse(arguments.json, "--json");
  refuse(arguments.draw, "--draw");
  refuse(!arguments.html.empty(), "--html");
  refuse(!arguments.svg.empty(), "--svg");
  refuse(!arguments.why.empty(), "--why");
}

int run(const Arguments& arguments) {
  if (!arguments.diff.empty()) {
    const std::string &a = arguments.diff[0], &b = arguments.diff[1];
    write_out(diff_plans(read_file(a), a, read_file(b), b));
    return 0;
  }
  if (arguments.config.empty())
    throw ConfigError("plan: --config F, --model NAME or --diff A.json B.json is needed");
  if (arguments.ablation) {
    print_plan_ablation(arguments.config, arguments.overrides, arguments.json);
    return 0;
  }
  check_terminal(arguments);
  if (!arguments.beside.empty() && (arguments.html.empty() || arguments.is_drawn()))
    throw ConfigError(
        "plan: --beside requires --html F; --draw and --svg show one plan, so run the command a "
        "second time for the other settings");
  Config config = load_config(arguments.config, arguments.overrides);
  const PlanDevice device(config, arguments.device_memory);
  if (arguments.device_memory >= 0 && !device.is_described())
    throw ConfigError(fmt::format(
        "plan: --device-memory requires a GPU, but device is {}; add device=gpu", config.device));
  if (device.is_described() && config.mode == Mode::kEager && !arguments.html.empty())
    throw ConfigError(
        fmt::format("plan: --html runs mode: eager on the device to draw it, but {} is only "
                    "described here; remove --html, or set device=cpu",
                    config.device));
  const Run run = planned_run(arguments, config);
  if (arguments.budgets) return budgets(arguments, run);
  if (!arguments.max_batch) return show_plan(arguments, run, device);
  const LargestBatch found = largest_batch_report(run, device, arguments.limit, arguments.slowdown);
  print_report(found.report, arguments.json, -1);
  return found.batch > 0 ? 0 : kTooLarge;
}

// Excludes options that answer different questions or write to the same output.
void exclude(CLI::App& plan) {
  const auto apart = [&](const char* name, std::initializer_list<const char*> others) {
    for (const char* other : others) plan.get_option(name)->excludes(plan.get_option(other));
  };
  apart("--diff",
        {"--config", "--model", "overrides", "--json", "--draw", "--csv", "--html", "--svg",
         "--beside", "--why", "--max-bytes", "--max-batch", "--limit", "--dump-after",
         "--disable-pass", "--ablation", "--budgets", "--export-recompute"});
  apart("--budgets", {"--draw", "--csv", "--beside", "--why", "--max-bytes", "--max-batch",
                      "--dump-after", "--disable-pass", "--ablation", "--export-recompute"});
  apart("--export-recompute", {"--max-batch", "--dump-after", "--ablation"});
  apart("--ablation", {"--draw", "--csv", "--html", "--svg", "--beside", "--why", "--max-bytes",
                       "--max-batch", "--dump-after", "--disable-pass"});
  apart("--max-batch", {"--draw", "--csv", "--html", "--svg", "--beside", "--why", "--max-bytes",
                        "--dump-after", "--disable-pass"});
  apart("--dump-after", {"--json", "--draw", "--csv", "--html", "--svg", "--beside", "--why"});
  apart("--json", {"--draw", "--html", "--svg", "--why"});
  apart("--draw", {"--svg", "--why"});
  apart("--processes", {"--diff", "--ablation", "--export-recompute"});
  apart("--device-memory", {"--diff", "--limit"});
  plan.get_option("--limit")->needs(plan.get_option("--max-batch"));
  plan.get_option("--slowdown")->needs(plan.get_option("--max-batch"));
}

}  // namespace

void add_plan_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* plan = app.add_subcommand("plan", "show the memory of a training step, without a run");
  add_config_options(*plan, arguments->config, arguments->overrides);
  plan->add_flag("--json", arguments->json, "the whole plan as JSON");
  plan->add_flag("--draw", arguments->draw, "draw the plan in the terminal, time to the right");
  plan->add_option("--csv", arguments->csv,
                   "write the planning problem as CSV, for planner; - is standard output");
  plan->add_flag("--budgets", arguments->budgets,
                 "table of what each memory.budget costs, from the smallest to none; with\n"
                 "--html or --svg also as a picture");
  plan->add_option("--export-recompute", arguments->recompute,
                   "write the recomputation problem for planner recompute; - is standard output");
  plan->add_option("--html", arguments->html, "write the plan as HTML, with hover and search");
  plan->add_option("--svg", arguments->svg, "write one plan as SVG, without hover and search");
  plan->add_option("--beside", arguments->beside,
                   "key=value of a second plan, shown next to the first in --html; repeatable;\n"
                   "mode=eager is run for two steps, and the picture shows what it allocated")
      ->allow_extra_args(false);
  plan->add_option(
      "--why", arguments->why,
      "explain tensors by name, op or module path: their offsets and their last users");
  plan->add_option("--diff", arguments->diff, "show what changed between two --json files")
      ->expected(2);
  add_bytes(*plan, "--max-bytes", arguments->max_bytes,
            "exit with 4 if the training needs more (2GiB)");
  plan->add_flag("--max-batch", arguments->max_batch, "the largest data.batch that fits --limit");
  add_bytes(*plan, "--limit", arguments->limit, "memory limit for --max-batch (8GiB)");
  add_percent(*plan, "--slowdown", arguments->slowdown,
              "with --max-batch: allowed overhead of recomputation, estimated (5%)");
  add_bytes(*plan, "--device-memory", arguments->device_memory,
            "memory of the GPU that device names, which need not be present (80GiB): exit with\n"
            "4 if the training needs more of it; with --max-batch: the limit");
  plan->add_option("--processes", arguments->processes,
                   "the memory of one of so many processes (mpirun) that share the training")
      ->check(CLI::Range(1, 4096));
  plan->add_option("--dump-after", arguments->compile.dump_after,
                   "print the graph after this pass, or after \"capture\"");
  plan->add_option(
          "--disable-pass", arguments->compile.disabled_passes,
          fmt::format("disable a pass; may be repeated: {}", fmt::join(pass_names(), ", ")))
      ->allow_extra_args(false);
  plan->add_flag("--ablation", arguments->ablation,
                 "measure each technique: bytes without each pass, and with other planners");
  exclude(*plan);
  plan->callback([arguments, &command] { command = [arguments] { return run(*arguments); }; });
}

}  // namespace tessera
