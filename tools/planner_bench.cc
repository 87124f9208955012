// planner compare, bench, list: compares planners.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/memory/ablation.h"
#include "tessera/memory/plan_csv.h"
#include "tessera/runtime/error.h"
#include "tessera/tools/output.h"
#include "tessera/tools/planner_commands.h"
#include "tessera/tools/planner_results.h"

namespace tessera {
namespace {

struct BenchArguments {
  std::vector<std::string> files;
  std::string plot;
  Limits limits;
  int columns = 100;
  bool json = false, ablation = false;
};

// Replaces folders by the CSV files in them, recursively, sorted by name.
std::vector<std::filesystem::path> files_of(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    if (!fs::is_directory(path)) {
      files.emplace_back(path);
      continue;
    }
    const size_t before = files.size();
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.path().extension() == ".csv") files.push_back(entry.path());
    if (files.size() == before)
      throw DataError(fmt::format("{}: the folder has no .csv files", path));
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  return files;
}

// Measures CPU time in milliseconds: planners use one thread, and other programs do not count.
BenchCell timed(const std::function<Solution()>& prove) {
  const std::clock_t start = std::clock();
  const Solution solution = prove();
  const double ms = 1000.0 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {solution.plan.bytes, solution.status, solution.nodes, ms};
}

int compare(const BenchArguments& arguments) {
  for (const std::filesystem::path& file : files_of(arguments.files)) {
    const Problem problem = read_plan_csv_file(file);
    const int64_t bound = lower_bound(problem);
    write_out(fmt::format("{}: {} buffers, lower bound {}\n", file.string(), problem.buffers.size(),
                          bound));
    Table table({{nullptr, "planner", true},
                 {nullptr, "bytes"},
                 {nullptr, "ratio"},
                 {nullptr, "ms"},
                 {nullptr, "proof", true}});
    for (const Planner* planner : planners()) {
      Solution solution;
      const BenchCell cell = timed([&] { return solution = prove_checked(*planner, problem); });
      const bool any = placed(solution.status);
      table.add({planner->name(), any ? Cell(cell.bytes) : "-",
                 any ? number(ratio(cell.bytes, bound), 4) : "-", number(cell.ms, 2),
                 proof_of(solution)});
    }
    write_out(table.text());
  }
  return 0;
}

BenchResults bench_planners(const std::vector<std::filesystem::path>& files, const Limits& limits) {
  BenchResults results{"planner", {}, {}, {}};
  for (const Planner* planner : planners()) results.rows.emplace_back(planner->name());
  results.cells.resize(results.rows.size());
  for (const std::filesystem::path& file : files) {
    const Problem problem = read_plan_csv_file(file);
    results.problems.push_back({file.stem(), std::ssize(problem.buffers), lower_bound(problem)});
    for (size_t row = 0; row < results.rows.size(); ++row) {
      results.cells[row].push_back(
          timed([&] { return prove_checked(*planners()[row], problem, limits); }));
    }
  }
  return results;
}

// Runs the whole exact search, then with each of its inferences disabled.
BenchResults bench_ablation(const std::vector<std::filesystem::path>& files, const Limits& limits) {
  BenchResults results{"without", {"(nothing)"}, {}, {}};
  for (const Ablation& ablation : ablations()) results.rows.emplace_back(ablation.name);
  results.cells.resize(results.rows.size());
  for (const std::filesystem::path& file : files) {
    const Problem problem = read_plan_csv_file(file);
    results.problems.push_back({file.stem(), std::ssize(problem.buffers), lower_bound(problem)});
    for (size_t row = 0; row < results.rows.size(); ++row) {
      const std::string_view without = row == 0 ? "" : ablations()[row - 1].name;
      results.cells[row].push_back(timed([&] { return prove_without(without, problem, limits); }));
    }
  }
  return results;
}

int bench(const BenchArguments& arguments) {
  if (!arguments.plot.empty() && !arguments.plot.ends_with(".svg"))
    throw ConfigError(fmt::format("bench: -o must end in .svg, but is '{}'", arguments.plot));
  const std::vector<std::filesystem::path> files = files_of(arguments.files);
  const BenchResults results = arguments.ablation ? bench_ablation(files, arguments.limits)
                                                  : bench_planners(files, arguments.limits);
  if (!arguments.plot.empty()) write_output(arguments.plot, results.svg());
  Report report = results.report(arguments.columns);
  if (arguments.ablation) {
    Table table({{nullptr, "", true}, {nullptr, "", true}});
    for (const Ablation& one : ablations()) table.add({one.name, one.explanation});
    report.add(nullptr, "", std::move(table));
  }
  print_report(report, arguments.json);
  return 0;
}

int list(const BenchArguments&) {
  Table table({{nullptr, "", true}, {nullptr, "", true}});
  for (const Planner* planner : planners()) table.add({planner->name(), planner->explanation()});
  write_out(table.text());
  return 0;
}

}  // namespace

void add_bench_commands(CLI::App& app, Command& command) {
  auto arguments = std::make_shared<BenchArguments>();
  const auto add = [&](const char* name, const char* help, int (*run)(const BenchArguments&)) {
    return add_command(app, command, name, help, [arguments, run] { return run(*arguments); });
  };
  CLI::App* comparing = add("compare", "compare all planners in a table for each file", compare);
  comparing->add_option("files", arguments->files, "problems, or folders of them")->required();
  CLI::App* benching = add("bench", "run all planners on all files: one table and one plot", bench);
  benching->add_option("files", arguments->files, "problems, or folders of them")->required();
  benching->add_flag("--json", arguments->json, "as JSON");
  benching->add_option("-o,--output", arguments->plot, "write a plot as SVG");
  benching->add_flag("--ablation", arguments->ablation,
                     "run the exact search instead, with each of its inferences disabled in turn");
  benching->add_option("--nodes", arguments->limits.nodes, "limit of decisions for each search")
      ->check(CLI::NonNegativeNumber);
  benching->add_option("--columns", arguments->columns, "width of the table")
      ->capture_default_str();
  add("list", "list the planners", list);
}

}  // namespace tessera
