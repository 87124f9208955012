// planner draw, why: show a plan, or one of its buffers.
#include <cstdio>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/memory/plan_check.h"
#include "tessera/memory/plan_csv.h"
#include "tessera/memory/plan_draw.h"
#include "tessera/memory/plan_why.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/output.h"
#include "tessera/tools/planner_commands.h"

namespace tessera {
namespace {

struct LookArguments {
  std::string file, planner = "best", output, buffer;
  int columns = 72, rows = 24;
};

// The plan in the file, or else the planner's.
struct Planned {
  Problem problem;
  Solution solution;
};

Planned planned(const LookArguments& arguments) {
  Planned result{read_plan_csv_file(arguments.file), {}};
  const Planner& planner = planner_named(arguments.planner);
  if (has_plan(result.problem)) {
    result.solution.plan = take_plan(result.problem, arguments.file);
    result.solution.status = SolveStatus::kFeasible;
  } else {
    result.solution = prove_checked(planner, result.problem);
  }
  return result;
}

int draw(const LookArguments& arguments) {
  const std::string kind = std::filesystem::path(arguments.output).extension();
  if (!kind.empty() && kind != ".svg" && kind != ".html" && kind != ".txt") {
    throw ConfigError(
        fmt::format("draw: -o must end in .svg, .html or .txt, but is '{}'", arguments.output));
  }
  const auto [problem, solution] = planned(arguments);
  if (!placed(solution.status)) {
    print_conflict(problem, solution);
    return kInfeasible;
  }
  const Plan& plan = solution.plan;
  if (kind == ".svg") {
    write_output(arguments.output, draw_plan_svg(problem, plan));
  } else if (kind == ".html") {
    const std::string title = std::filesystem::path(arguments.file).filename();
    const PlanPicture picture{title, problem, plan};
    write_output(arguments.output, draw_plan_html({&picture, 1}));
  } else {
    write_output(arguments.output,
                 draw_plan_text(problem, plan, arguments.columns, arguments.rows));
  }
  return 0;
}

// Returns the buffer of that name; "#3" selects by its number in the file.
int buffer_named(const Problem& problem, const LookArguments& arguments) {
  const std::string& name = arguments.buffer;
  std::vector<std::string> found;
  int last = -1;
  for (int i = 0; i < std::ssize(problem.buffers); ++i) {
    const std::string number = fmt::format("#{}", i);
    if (name == number) return i;
    if (problem.buffers[i].id != name) continue;
    found.push_back(number);
    last = i;
  }
  if (found.size() == 1) return last;
  if (found.empty()) {
    throw ConfigError(fmt::format("{}: no buffer '{}' among its {} buffers", arguments.file, name,
                                  problem.buffers.size()));
  }
  throw ConfigError(fmt::format("{}: several buffers are named '{}'; write one of {}",
                                arguments.file, name, fmt::join(found, ", ")));
}

int explain(const LookArguments& arguments) {
  const auto [problem, solution] = planned(arguments);
  if (!placed(solution.status)) {
    print_conflict(problem, solution);
    return kInfeasible;
  }
  if (const auto fault = check(problem, solution.plan))
    throw DataError(fmt::format("{}: {}", arguments.file, fault->text));
  const int buffer = buffer_named(problem, arguments);
  const Interval& b = problem.buffers[buffer];
  if (b.size == 0 || b.lower == b.upper) {
    throw DataError(fmt::format("{}: buffer '{}' needs no memory: {} bytes, live in [{}, {})",
                                arguments.file, b.id, b.size, b.lower, b.upper));
  }
  write_out(explanation_text(problem, solution.plan, buffer, planner_named(arguments.planner)));
  return 0;
}

}  // namespace

void add_look_commands(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<LookArguments>();
  const auto add = [&](const char* name, const char* help, int (*run)(const LookArguments&)) {
    CLI::App* sub =
        add_command(app, command, name, help, [arguments, run] { return run(*arguments); });
    sub->add_option("file", arguments->file, "a plan, or a problem to plan first")->required();
    sub->add_option("--planner", arguments->planner, "one of " + planner_names())
        ->capture_default_str();
    return sub;
  };
  CLI::App* drawing = add("draw", "draw the plan: time runs to the right, addresses upwards", draw);
  drawing->add_option("-o,--output", arguments->output,
                      "write F.svg, F.html (with hover and search) or F.txt");
  drawing->add_option("--columns", arguments->columns, "width of the text")->capture_default_str();
  drawing->add_option("--rows", arguments->rows, "height of the text")->capture_default_str();
  CLI::App* explaining = add(
      "why",
      "explain one buffer: its offset, its neighbours in memory, and the bytes saved without it",
      explain);
  explaining->add_option("buffer", arguments->buffer, "its id, or #3 for the fourth buffer")
      ->required();
}

}  // namespace tessera
