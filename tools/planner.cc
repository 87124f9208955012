// planner: memory planning on its own, over CSV files (memory/plan_csv.h).
//
// Exit codes: 0 done, 2 usage or input, 4 proved infeasible or above --max-bytes, 7 no plan found
// within the capacity.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "tessera/memory/plan_check.h"
#include "tessera/memory/plan_csv.h"
#include "tessera/memory/plan_draw.h"
#include "tessera/memory/planner_library.h"
#include "tessera/runtime/error.h"

namespace {

using namespace tessera;

constexpr int kUsage = 2;
constexpr int kInfeasible = 4;
constexpr int kNotFound = 7;

struct Arguments {
  std::string file;
  std::vector<std::string> files;
  std::string planner = "best";
  std::string output;
  std::string svg;
  int64_t capacity = -1;
  int64_t max_bytes = -1;
  double timeout = 0;
  int columns = 72;
  int rows = 24;
};

const Planner& planner_named(const std::string& name) {
  const Planner* planner = find_planner(name);
  if (planner != nullptr) return *planner;
  throw ConfigError(fmt::format("unknown planner '{}'; known are {}", name, planner_names()));
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw DataError(fmt::format("{}: cannot be written", path));
}

double ratio(int64_t bytes, int64_t bound) {
  return bound == 0 ? 1.0 : static_cast<double>(bytes) / static_cast<double>(bound);
}

void print_summary(const Problem& problem, const Solution& solution, FILE* to) {
  fmt::print(to, "bytes {}  lower bound {}  ratio {:.4f}  unplanned {}  buffers {}{}\n",
             solution.plan.bytes, solution.bound, ratio(solution.plan.bytes, solution.bound),
             unplanned_bytes(problem), problem.buffers.size(),
             solution.verdict == Verdict::kOptimal ? "  (proved lowest)" : "");
}

// A planner's plan is checked before anybody builds on it.
Solution prove_checked(const Planner& planner, const Problem& problem, const Limits& limits = {}) {
  Solution solution = planner.prove(problem, limits);
  const bool placed = solution.verdict == Verdict::kOptimal || solution.verdict == Verdict::kWithin;
  if (const auto fault = placed ? check(problem, solution.plan) : std::nullopt) {
    throw DataError(fmt::format("{}: {}", planner.name(), fault->text));
  }
  return solution;
}

std::string proof_of(const Solution& solution) {
  if (solution.verdict == Verdict::kOptimal) return "lowest";
  if (solution.verdict == Verdict::kInfeasible) return "infeasible";
  return fmt::format("within {:.2f} %", 100 * solution.gap());
}

// Which buffers are why there is no plan; without any one of them there is.
void print_conflict(const Problem& problem, const Solution& solution) {
  if (problem.capacity >= 0) {
    fmt::print(stderr, "planner: infeasible: no plan fits {} bytes\n", problem.capacity);
  } else {
    fmt::print(stderr, "planner: infeasible: fixed buffers overlap\n");
  }
  if (solution.conflict.empty()) return;
  fmt::print(stderr, "planner: these {} cannot be placed together, any fewer of them can:\n",
             solution.conflict.size());
  for (int i : solution.conflict) {
    const Interval& b = problem.buffers[i];
    fmt::print(stderr, "  {}: live in [{}, {}), {} bytes{}\n", b.id, b.lower, b.upper, b.size,
               b.offset >= 0 ? fmt::format(", fixed at {}", b.offset) : "");
  }
}

// Takes the offsets of a solved file out of the problem, so that they are a plan to look at.
Plan take_plan(Problem& problem, const std::string& file) {
  Plan plan;
  for (Interval& buffer : problem.buffers) {
    if (buffer.offset < 0) {
      throw DataError(
          fmt::format("{}: buffer '{}' has no offset; 'planner solve' finds one", file, buffer.id));
    }
    plan.offsets.push_back(buffer.offset);
    if (buffer.size > 0 && buffer.lower < buffer.upper) {
      plan.bytes = std::max(plan.bytes, buffer.offset + buffer.size);
    }
    buffer.offset = -1;
  }
  return plan;
}

int solve(const Arguments& arguments) {
  const Planner& planner = planner_named(arguments.planner);
  Problem problem = read_plan_csv_file(arguments.file);
  problem.capacity = arguments.capacity;
  const Solution solution = prove_checked(planner, problem, {.seconds = arguments.timeout});
  const Plan& plan = solution.plan;
  if (solution.verdict == Verdict::kInfeasible) {
    print_conflict(problem, solution);
    return kInfeasible;
  }
  if (solution.verdict == Verdict::kNotFound) {
    fmt::print(stderr,
               "planner: {} found no plan within {} bytes, the lowest takes {}; it is not proved "
               "impossible\n",
               planner.name(), problem.capacity, plan.bytes);
    return kNotFound;
  }
  if (!arguments.output.empty()) {
    const std::string csv = write_plan_csv(problem, &plan);
    if (arguments.output == "-") fmt::print("{}", csv);
    if (arguments.output != "-") write_file(arguments.output, csv);
  }
  print_summary(problem, solution, arguments.output == "-" ? stderr : stdout);
  if (arguments.max_bytes >= 0 && plan.bytes > arguments.max_bytes) {
    fmt::print(stderr, "planner: the plan takes {} bytes, --max-bytes allows {}\n", plan.bytes,
               arguments.max_bytes);
    return kInfeasible;
  }
  return 0;
}

int compare(const Arguments& arguments) {
  for (const std::string& file : arguments.files) {
    const Problem problem = read_plan_csv_file(file);
    const int64_t bound = lower_bound(problem);
    fmt::print("{}: {} buffers, lower bound {}\n", file, problem.buffers.size(), bound);
    fmt::print("  {:<12} {:>16} {:>8} {:>10}  {}\n", "planner", "bytes", "ratio", "ms", "proof");
    for (const Planner* planner : planners()) {
      const auto start = std::chrono::steady_clock::now();
      const Solution solution = prove_checked(*planner, problem);
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      fmt::print("  {:<12} {:>16} {:>8.4f} {:>10.2f}  {}\n", planner->name(), solution.plan.bytes,
                 ratio(solution.plan.bytes, bound), took.count(), proof_of(solution));
    }
  }
  return 0;
}

int bound(const Arguments& arguments) {
  const Problem problem = read_plan_csv_file(arguments.file);
  fmt::print("lower bound {}  unplanned {}  buffers {}\n", lower_bound(problem),
             unplanned_bytes(problem), problem.buffers.size());
  return 0;
}

int check_file(const Arguments& arguments) {
  Problem problem = read_plan_csv_file(arguments.file);
  const Plan plan = take_plan(problem, arguments.file);
  problem.capacity = arguments.capacity;
  if (const auto fault = check(problem, plan)) {
    fmt::print(stderr, "planner: {}: {}\n", arguments.file, fault->text);
    return kUsage;
  }
  const int64_t bound = lower_bound(problem);
  const Verdict verdict = plan.bytes == bound ? Verdict::kOptimal : Verdict::kWithin;
  print_summary(problem, {plan, verdict, bound, 0, {}}, stdout);
  return 0;
}

int draw(const Arguments& arguments) {
  Problem problem = read_plan_csv_file(arguments.file);
  const bool solved = std::all_of(problem.buffers.begin(), problem.buffers.end(),
                                  [](const Interval& buffer) { return buffer.offset >= 0; });
  const Plan plan = solved ? take_plan(problem, arguments.file)
                           : prove_checked(planner_named(arguments.planner), problem).plan;
  if (arguments.svg.empty()) {
    fmt::print("{}", draw_plan_text(problem, plan, arguments.columns, arguments.rows));
  } else {
    write_file(arguments.svg, draw_plan_svg(problem, plan));
  }
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app(
      "Plans memory: where each buffer stands, given when it is live. Files are CSV with "
      "the columns id,lower,upper,size and optionally alignment,hint,gaps,offset.");
  app.name("planner");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--planner-lib",
                 "a shared library with one more planner (memory/planner_library.h)")
      ->each([](const std::string& path) { load_planner(path); });
  Arguments arguments;
  const std::string planner_help = "one of " + planner_names();
  const CLI::AsSizeValue size(false);
  const auto verb = [&](const char* name, const char* help) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("file,--input", arguments.file, "the problem")->required();
    return command;
  };
  CLI::App* solving = verb("solve", "find a plan");
  solving->add_option("--planner", arguments.planner, planner_help)->capture_default_str();
  solving->add_option("--output", arguments.output, "write the plan as CSV; - is the terminal");
  solving->add_option("--capacity", arguments.capacity, "bytes there are (8GiB)")->transform(size);
  solving->add_option("--timeout", arguments.timeout, "seconds after which it gives up");
  solving->add_option("--max-bytes", arguments.max_bytes, "fail with 4 above it")->transform(size);
  CLI::App* comparing = app.add_subcommand("compare", "all planners side by side");
  comparing->add_option("files", arguments.files, "the problems")->required();
  CLI::App* bounding = verb("bound", "the bytes below which no plan can be");
  CLI::App* checking = verb("check", "prove that a plan (a file with offsets) is right");
  checking->add_option("--capacity", arguments.capacity, "bytes there are")->transform(size);
  CLI::App* drawing = verb("draw", "a picture of the plan, as text or SVG");
  drawing->add_option("--planner", arguments.planner, planner_help)->capture_default_str();
  drawing->add_option("--svg", arguments.svg, "write an SVG file instead of text");
  drawing->add_option("--columns", arguments.columns, "width of the text")->capture_default_str();
  drawing->add_option("--rows", arguments.rows, "height of the text")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (*solving) return solve(arguments);
  if (*comparing) return compare(arguments);
  if (*bounding) return bound(arguments);
  if (*checking) return check_file(arguments);
  if (*drawing) return draw(arguments);
  return kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "planner: " << error.what() << "\n";
    return kUsage;
  }
}
