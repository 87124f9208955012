// planner recompute: chooses what is recomputed so that a program fits a budget
// (rematerialization).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/memory/planner_library.h"
#include "tessera/memory/recompute/recompute_text.h"
#include "tessera/runtime/error.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/tools/output.h"
#include "tessera/tools/planner_commands.h"

namespace tessera {
namespace {

struct Arguments {
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

struct Timed {
  std::vector<RecomputePlan> plans;
  double ms;
};

// Solves for each budget, and checks every plan before it is shown.
Timed solve(const RecomputeStrategy& strategy, RecomputeProblem problem,
            const std::vector<int64_t>& budgets) {
  const auto start = std::chrono::steady_clock::now();
  Timed timed{strategy.solve(problem, budgets), 0};
  timed.ms = milliseconds_since(start);
  for (size_t i = 0; i < budgets.size(); ++i) {
    problem.budget = budgets[i];
    if (const auto fault = check_recompute(problem, timed.plans[i]))
      throw DataError(fmt::format("{}: {}", strategy.name(), *fault));
  }
  return timed;
}

double more_time(int64_t extra, const RecomputeProblem& problem) {
  const int64_t base = base_cost(problem);
  return base == 0 ? 0.0 : static_cast<double>(extra) / static_cast<double>(base);
}

bool fits(const RecomputePlan& plan) {
  return plan.status == SolveStatus::kOptimal || plan.status == SolveStatus::kFeasible;
}

std::string certificate(const RecomputePlan& plan) {
  switch (plan.status) {
    case SolveStatus::kOptimal:
      return "optimal";
    case SolveStatus::kInfeasible:
      return fmt::format("infeasible, at least {}", plan.lowest);
    case SolveStatus::kUnknown:
      return fmt::format("none found, at least {}", plan.lowest);
    case SolveStatus::kFeasible:
      break;
  }
  return fmt::format("within {:.2f} %", std::ceil(10'000 * plan.gap()) / 100);
}

std::vector<const RecomputeStrategy*> chosen(const Arguments& arguments) {
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

std::string heading(const Arguments& arguments, const RecomputeProblem& problem) {
  return fmt::format("{}: {} steps, {} values, peak {} without recomputation, at least {}{}\n",
                     arguments.file, problem.steps.size(), problem.values.size(),
                     measure(problem, once_each(problem))->peak, peak_bound(problem).bytes,
                     problem.budget < 0 ? "" : fmt::format(", budget {}", problem.budget));
}

int table(const Arguments& arguments, const RecomputeProblem& problem) {
  Table table({{nullptr, "strategy", true},
               {nullptr, "peak"},
               {nullptr, "extra"},
               {nullptr, "recomputed"},
               {nullptr, "ms"},
               {nullptr, "certificate", true}});
  RecomputePlan last;
  for (const RecomputeStrategy* strategy : chosen(arguments)) {
    Timed timed = solve(*strategy, problem, {problem.budget});
    last = std::move(timed.plans.front());
    table.add({strategy->name(), last.peak, percent(more_time(last.extra, problem), 2),
               last.runs.size() - problem.steps.size(), number(timed.ms, 1), certificate(last)});
  }
  if (!arguments.compare && !fits(last)) return refuse(problem, last);
  if (!arguments.output.empty()) write_runs(arguments.output, problem, last.runs);
  if (arguments.output != "-") write_out(heading(arguments, problem) + table.text());
  return 0;
}

// Shows budgets from the lowest peak of any strategy to the peak without recomputation.
int curve(const Arguments& arguments, const RecomputeProblem& problem) {
  const auto strategies = chosen(arguments);
  int64_t lowest = INT64_MAX;
  for (const RecomputeStrategy* strategy : strategies)
    lowest = std::min(lowest, solve(*strategy, problem, {0}).plans.front().peak);
  const int64_t highest = measure(problem, once_each(problem))->peak;
  std::vector<int64_t> budgets;
  for (int i = 0; i < arguments.curve; ++i)
    budgets.push_back(lowest + (highest - lowest) / std::max(arguments.curve - 1, 1) * i);
  budgets.back() = highest;
  std::vector<Table::Column> heads = {{nullptr, "budget"}};
  std::vector<Timed> all;
  for (const RecomputeStrategy* strategy : strategies) {
    heads.emplace_back(nullptr, std::string(strategy->name()).c_str());
    all.push_back(solve(*strategy, problem, budgets));
  }
  heads.emplace_back(nullptr, "bound");
  Table table(std::move(heads));
  for (size_t i = 0; i < budgets.size(); ++i) {
    std::vector<Cell> row = {budgets[i]};
    for (const Timed& timed : all)
      row.push_back(fits(timed.plans[i]) ? percent(more_time(timed.plans[i].extra, problem), 2)
                                         : "-");
    const int64_t extra = cost_bound(problem, budgets[i]) - base_cost(problem);
    row.push_back(percent(more_time(extra, problem), 2));
    table.add(std::move(row));
  }
  std::vector<Cell> times = {"ms"};
  for (const Timed& timed : all) times.push_back(number(timed.ms, 1));
  times.emplace_back("");
  table.add(std::move(times));
  write_out(heading(arguments, problem) + table.text());
  return 0;
}

int recompute(const Arguments& arguments) {
  RecomputeProblem problem = read_recompute_file(arguments.file);
  if (arguments.budget >= 0) problem.budget = arguments.budget;
  return arguments.curve > 0 ? curve(arguments, problem) : table(arguments, problem);
}

}  // namespace

void add_recompute_command(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<Arguments>();
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
