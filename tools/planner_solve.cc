// planner solve, check: make and check plans.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/memory/plan_check.h"
#include "tessera/memory/plan_csv.h"
#include "tessera/tools/output.h"
#include "tessera/tools/planner_commands.h"

namespace tessera {
namespace {

struct SolveArguments {
  std::string file, planner = "best", output;
  int64_t capacity = -1, max_bytes = -1;
  Limits limits;
};

std::string summary(const Problem& problem, const Solution& solution) {
  return fmt::format(
      "bytes {}  lower bound {}  ratio {:.4f}  unplanned {}  buffers {}  ({})\n",
      solution.plan.bytes, solution.bound, ratio(solution.plan.bytes, solution.bound),
      unplanned_bytes(problem), problem.buffers.size(),
      solution.status == SolveStatus::kOptimal ? "proved lowest" : proof_of(solution));
}

// Returns the time that is left: the limit is for the whole command, and checking and writing take
// as long as reading took.
Limits what_is_left(Limits limits, std::chrono::steady_clock::time_point start) {
  if (limits.seconds == 0) return limits;
  const std::chrono::duration<double> reading = std::chrono::steady_clock::now() - start;
  limits.seconds = std::max(limits.seconds - 2 * reading.count(), 1e-6);
  return limits;
}

int solve(const SolveArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const Planner& planner = planner_named(arguments.planner);
  Problem problem = read_plan_csv_file(arguments.file);
  problem.capacity = arguments.capacity;
  const Solution solution = prove_checked(planner, problem, what_is_left(arguments.limits, start));
  if (solution.status == SolveStatus::kInfeasible) {
    print_conflict(problem, solution);
    return kInfeasible;
  }
  if (solution.status == SolveStatus::kUnknown) {
    fmt::print(stderr,
               "planner: {} found no plan within {} bytes (its lowest needs {}), but did not prove "
               "that none exists\n",
               planner.name(), problem.capacity, solution.plan.bytes);
    return kUnknown;
  }
  if (arguments.max_bytes >= 0 && solution.plan.bytes > arguments.max_bytes) {
    fmt::print(stderr, "planner: the plan needs {} bytes, but --max-bytes is {}\n",
               solution.plan.bytes, arguments.max_bytes);
    return kInfeasible;
  }
  if (!arguments.output.empty())
    write_output(arguments.output, write_plan_csv(problem, &solution.plan));
  const std::string text = summary(problem, solution);
  if (arguments.output == "-")  // standard output has the plan
    fmt::print(stderr, "{}", text);
  else
    write_out(text);
  return 0;
}

int check_file(const SolveArguments& arguments) {
  Problem problem = read_plan_csv_file(arguments.file);
  const Plan plan = take_plan(problem, arguments.file);
  problem.capacity = arguments.capacity;
  if (const auto fault = check(problem, plan)) {
    fmt::print(stderr, "planner: {}: {}\n", arguments.file, fault->text);
    return kUsage;
  }
  const int64_t bound = lower_bound(problem);
  const SolveStatus status = plan.bytes == bound ? SolveStatus::kOptimal : SolveStatus::kFeasible;
  write_out(summary(problem, {plan, status, bound, 0, {}}));
  return 0;
}

}  // namespace

void add_solve_commands(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<SolveArguments>();
  const auto add = [&](const char* name, const char* help, int (*run)(const SolveArguments&)) {
    CLI::App* sub =
        add_command(app, command, name, help, [arguments, run] { return run(*arguments); });
    sub->add_option("file", arguments->file, "the problem")->required();
    return sub;
  };
  CLI::App* solving = add("solve", "find a plan", solve);
  solving->add_option("--planner", arguments->planner, "one of " + planner_names())
      ->capture_default_str();
  solving->add_option("-o,--output", arguments->output, "the plan as CSV; - is standard output");
  add_bytes(*solving, "--capacity", arguments->capacity, "memory limit of the plan (8GiB)");
  add_seconds(*solving, "--timeout", arguments->limits.seconds, "time limit of the command");
  solving->add_option("--nodes", arguments->limits.nodes, "limit of decisions for each search")
      ->check(CLI::NonNegativeNumber);
  add_bytes(*solving, "--max-bytes", arguments->max_bytes, "exit with 4 if the plan needs more");
  CLI::App* checking = add("check", "check that a plan (a file with offsets) is valid", check_file);
  add_bytes(*checking, "--capacity", arguments->capacity, "memory limit of the plan");
}

}  // namespace tessera
