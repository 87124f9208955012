// planner recompute: chooses what is recomputed so that a program fits a budget
// (rematerialization).
#include <algorithm>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/memory/planner_library.h"
#include "tessera/memory/recompute/recompute_text.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/output.h"
#include "tessera/tools/planner_commands.h"
#include "tessera/tools/planner_results.h"

namespace tessera {
namespace {

struct RecomputeArguments {
  std::string file, strategy = "best", output;
  int64_t budget = -1;
  int curve = 0;
  bool compare = false;
};

const RecomputeStrategy& strategy_named(const std::string& name) {
  const RecomputeStrategy* strategy = find_recompute_strategy(name);
  if (strategy != nullptr) return *strategy;
  throw ConfigError(fmt::format("recompute: unknown strategy '{}'; write one of {}", name,
                                recompute_strategy_names()));
}

std::vector<const RecomputeStrategy*> chosen(const RecomputeArguments& arguments) {
  if (arguments.compare) return recompute_strategies();
  return {&strategy_named(arguments.strategy)};
}

// Prints to stderr why there is no plan.
int refuse(const RecomputeProblem& problem, const RecomputePlan& plan) {
  const bool proved = plan.status == SolveStatus::kInfeasible;
  fmt::print(stderr,
             "planner: {}: no sequence {} within {} bytes; the lowest known peak is {}, and no "
             "peak is below {}\n",
             proved ? "infeasible" : "not found", proved ? "runs" : "was found that runs",
             problem.budget, plan.peak, plan.lowest);
  fmt::print(stderr, "planner: live at the lowest known peak:\n");
  constexpr size_t kShown = 10;
  for (size_t i = 0; i < std::min(kShown, plan.live_values.size()); ++i) {
    const RecomputeValue& value = problem.values[plan.live_values[i]];
    fmt::print(stderr, "  {}: {} bytes\n", value.id, value.bytes);
  }
  if (plan.live_values.size() > kShown)
    fmt::print(stderr, "  and {} more\n", plan.live_values.size() - kShown);
  return proved ? kInfeasible : kUnknown;
}

void write_runs(const std::string& path, const RecomputeProblem& problem,
                const StepSequence& runs) {
  std::string text;
  int first = 0;
  for (int step : runs) {
    text += problem.steps[step].id + (step < first ? " recomputed\n" : "\n");
    if (step == first) ++first;
  }
  write_output(path, text);
}

std::string heading(const RecomputeArguments& arguments, const RecomputeProblem& problem) {
  return fmt::format("{}: {} steps, {} values, peak {} without recomputation, at least {}{}\n",
                     arguments.file, problem.steps.size(), problem.values.size(),
                     measure(problem, once_each(problem))->peak, peak_bound(problem).bytes,
                     problem.budget < 0 ? "" : fmt::format(", budget {}", problem.budget));
}

int table(const RecomputeArguments& arguments, const RecomputeProblem& problem) {
  const StrategyResults found = try_strategies(chosen(arguments), problem);
  if (!arguments.compare && !found.fits) return refuse(problem, found.last);
  if (!arguments.output.empty()) write_runs(arguments.output, problem, found.last.runs);
  if (arguments.output != "-") write_out(heading(arguments, problem) + found.table.text());
  return 0;
}

int curve(const RecomputeArguments& arguments, const RecomputeProblem& problem) {
  const Table table = budget_table(chosen(arguments), problem, arguments.curve);
  write_out(heading(arguments, problem) + table.text());
  return 0;
}

int recompute(const RecomputeArguments& arguments) {
  RecomputeProblem problem = read_recompute_file(arguments.file);
  if (arguments.budget >= 0) problem.budget = arguments.budget;
  return arguments.curve > 0 ? curve(arguments, problem) : table(arguments, problem);
}

}  // namespace

void add_recompute_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<RecomputeArguments>();
  CLI::App* sub = add_command(app, command, "recompute",
                              "choose what is recomputed, so that a program fits a budget in bytes",
                              [arguments] { return recompute(*arguments); });
  sub->add_option("file", arguments->file, "the problem (memory/recompute)")->required();
  add_bytes(*sub, "--budget", arguments->budget, "limit of live bytes (4GiB)");
  add_library(*sub, "--strategy-lib",
              "a shared library with an additional strategy (memory/planner_library.h)",
              load_recompute_strategy);
  sub->add_flag("--compare", arguments->compare, "compare all strategies");
  sub->add_option("--strategy", arguments->strategy, "one of " + recompute_strategy_names())
      ->capture_default_str();
  sub->add_option("--curve", arguments->curve,
                  "number of budgets, from the lowest possible to none")
      ->check(CLI::Range(2, 10'000));
  sub->add_option("-o,--output", arguments->output, "write the steps in the order they run");
  exclude(*sub, "--compare", {"--strategy", "--output"});
  exclude(*sub, "--curve", {"--output"});
}

}  // namespace tessera
