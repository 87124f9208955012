// trainer plan: shows the memory that a configuration needs, before it runs.
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/graph/lower.h"
#include "tessera/graph/plan_report.h"
#include "tessera/memory/plan_draw.h"
#include "tessera/memory/recompute/recompute_text.h"
#include "tessera/models/study/plan.h"
#include "tessera/models/training/memory_limit.h"
#include "tessera/models/training/processes.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/ablation.h"
#include "tessera/tools/output.h"
#include "tessera/tools/plan_options.h"
#include "tessera/tools/trainer_commands.h"

namespace tessera {
namespace {

constexpr int kTooLarge = 4;

Run planned_run(const PlanOptions& options, const Config& config) {
  const int processes = options.processes;
  Run run = Run::shared(config, processes > 1 ? std::make_shared<Exchange>(0, processes) : nullptr,
                        options.compile);
  require_shareable(run);
  return run;
}

// Writes a page with the plan, and optionally with that of other settings next to it.
void write_html(const PlanOptions& options, const Run& run) {
  std::vector<PlanPicture> pictures = {plan_picture(run)};
  if (!options.beside.empty()) {
    std::vector<std::string> overrides = options.overrides;
    overrides.insert(overrides.end(), options.beside.begin(), options.beside.end());
    pictures.push_back(plan_picture(planned_run(options, load_config(options.config, overrides))));
  }
  write_file(options.html, draw_plan_html(pictures));
  write_out(fmt::format("{}: {} tensors\n", options.html, pictures[0].labels.size()));
}

// Draws the plan as SVG, or for the terminal.
void draw(const PlanOptions& options, const Run& run) {
  PlanPicture drawn = plan_picture(run);
  for (size_t i = 0; i < drawn.labels.size(); ++i) {  // without the last user
    const BufferLabel& label = drawn.labels[i];
    drawn.problem.buffers[i].id =
        label.name + "  " + label.details.substr(0, label.details.find('\n'));
  }
  if (options.svg.empty()) {
    write_out(fmt::format("{}\n", draw_plan_text(drawn.problem, drawn.plan, 72, 24, 16)));
  } else {
    write_file(options.svg, draw_plan_svg(drawn.problem, drawn.plan));
    write_out(fmt::format("{}: {} tensors\n", options.svg, drawn.labels.size()));
  }
}

int show_plan(const PlanOptions& options, const Run& run, const PlanDevice& device) {
  if (!options.csv.empty()) write_output(options.csv, problem_csv(run));
  if (!options.recompute.empty())
    write_output(options.recompute, write_recompute(training_problem(run)));
  if (!options.html.empty()) write_html(options, run);
  if (options.is_drawn()) draw(options, run);
  const bool reported = options.shows_plan();
  const bool checked = options.max_bytes >= 0 || device.memory() >= 0 || host_limit(run.config());
  if (!reported && !checked && options.compile.dump_after.empty()) return 0;
  const PlanReport report = plan(run);  // prints the graph of --dump-after
  const bool as_text = reported && !options.json && options.why.empty();
  if (reported)
    write_out(!options.why.empty() ? report.why(options.why)
                                   : (options.json ? report.json() : report.text()) + "\n");
  if (as_text) write_out(device.remarks(run, report));
  flush_out();
  const std::vector<std::string> exceeded = device.exceeded(run, report, options.max_bytes);
  for (const std::string& message : exceeded) fmt::print(stderr, "trainer: {}", message);
  return exceeded.empty() ? 0 : kTooLarge;
}

int run_plan(const PlanOptions& options) {
  options.check();
  if (!options.diff.empty()) {
    const std::string &a = options.diff[0], &b = options.diff[1];
    write_out(diff_plans(read_file(a), a, read_file(b), b));
    return 0;
  }
  if (options.ablation) {
    print_plan_ablation(options.config, options.overrides, options.json);
    return 0;
  }
  Config config = load_config(options.config, options.overrides);
  const PlanDevice device(config, options.device_memory);
  const Run run = planned_run(options, config);
  if (options.budgets) {
    const BudgetCurve curve = budget_curve(run);
    if (!options.html.empty()) write_file(options.html, curve.html());
    if (!options.svg.empty()) write_file(options.svg, curve.svg());
    print_report(curve.report(), options.json, -1);
    return 0;
  }
  if (!options.max_batch) return show_plan(options, run, device);
  const LargestBatch found = largest_batch_report(run, device, options.limit, options.slowdown);
  print_report(found.report, options.json, -1);
  return found.batch > 0 ? 0 : kTooLarge;
}

}  // namespace

void add_plan_command(CLI::App& app, Command& command) {
  auto options = std::make_shared<PlanOptions>();
  options->add_to(*add_command(app, command, "plan",
                               "show the memory of a training step, without a run",
                               [options] { return run_plan(*options); }));
}

}  // namespace tessera
