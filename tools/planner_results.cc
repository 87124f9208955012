#include "tessera/tools/planner_results.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>

#include "tessera/runtime/error.h"
#include "tessera/runtime/text/clock.h"
#include "tessera/runtime/text/json.h"
#include "tessera/runtime/text/utf8.h"
#include "tessera/tools/planner_commands.h"

namespace tessera {
namespace {

const char* status_name(SolveStatus status) {
  constexpr const char* kNames[] = {"optimal", "feasible", "infeasible", "unknown"};
  return kNames[static_cast<size_t>(status)];
}

// Adds a table of as many problems as fit into `columns`, then further ones.
void add_cells(
    Report& to, const BenchResults& results, int columns,
    const std::function<std::string(const BenchCell&, size_t row, size_t problem)>& text) {
  constexpr int kNameWidth = 20, kCellWidth = 18;
  const auto per_piece = static_cast<size_t>(std::max(1, (columns - kNameWidth) / kCellWidth));
  for (size_t first = 0; first < results.problems.size(); first += per_piece) {
    const size_t last = std::min(results.problems.size(), first + per_piece);
    std::vector<Table::Column> heads = {{nullptr, results.what.c_str(), true}};
    for (size_t p = first; p < last; ++p)
      heads.emplace_back(nullptr, std::to_string(p + 1).c_str());
    Table table(std::move(heads));
    for (size_t row = 0; row < results.rows.size(); ++row) {
      std::vector<Cell> cells = {results.rows[row]};
      for (size_t p = first; p < last; ++p) cells.emplace_back(text(results.cells[row][p], row, p));
      table.add(std::move(cells));
    }
    to.add(nullptr, "", std::move(table));
  }
}

// One half of the drawing, with a logarithmic scale from `least` to `most`.
class Panel {
 public:
  Panel(const BenchResults& results, double top, std::string title, double least, double most)
      : results_(results), top_(top), least_(std::log10(least)), most_(std::log10(most)) {
    svg_ = fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kLeft, top - 8, title);
  }

  void mark(double value, const std::string& label) {
    svg_ += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, right(), y_of(value), kLeft - 6, y_of(value) + 4, label);
  }

  void line(size_t row, const std::function<double(size_t)>& value) {
    std::string points, dots;
    for (size_t p = 0; p < results_.problems.size(); ++p) {
      if (!results_.placed(row, p)) continue;
      const double x = kLeft + kStep * (static_cast<double>(p) + 0.5), y = y_of(value(p));
      points += fmt::format("{:.1f},{:.1f} ", x, y);
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} on {}: {:.4f}, {:.2f} "
          "ms</title></circle>",
          x, y, html_escaped(results_.rows[row]), html_escaped(results_.problems[p].name),
          results_.ratio(row, p), results_.cells[row][p].ms);
    }
    svg_ += fmt::format(
        "<g stroke=\"{0}\" fill=\"{0}\"><polyline points=\"{1}\" fill=\"none\" "
        "stroke-opacity=\"0.5\"/>{2}</g>\n",
        colour(row), points, dots);
  }

  std::string colour(size_t row) const {
    const double hue = 360.0 * static_cast<double>(row) / static_cast<double>(results_.rows.size());
    return fmt::format("hsl({:.0f},75%,{}%)", hue, row % 2 == 0 ? 32 : 50);
  }
  double right() const { return kLeft + kStep * static_cast<double>(results_.problems.size()); }
  const std::string& svg() const { return svg_; }

  static constexpr double kLeft = 70, kStep = 48, kHeight = 260;

 private:
  double y_of(double value) const {
    const double part = (std::log10(value) - least_) / (most_ - least_);
    return top_ + kHeight * (1 - std::clamp(part, 0.0, 1.0));
  }

  const BenchResults& results_;
  double top_, least_, most_;
  std::string svg_;
};

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

}  // namespace

bool BenchResults::placed(size_t row, size_t problem) const {
  return cells[row][problem].status != SolveStatus::kInfeasible;
}

double BenchResults::ratio(size_t row, size_t problem) const {
  return tessera::ratio(cells[row][problem].bytes, problems[problem].bound);
}

double BenchResults::mean_ratio(size_t row) const {
  double sum = 0, count = 0;
  for (size_t p = 0; p < problems.size(); ++p)
    if (placed(row, p)) sum += std::log(ratio(row, p)), ++count;
  return count == 0 ? 1 : std::exp(sum / count);
}

Report BenchResults::report(int columns) const {
  const bool searches = what != "planner";
  Table table({{"name", nullptr},
               {nullptr, "problem"},
               {nullptr, "", true},
               {"buffers", "buffers"},
               {"lower_bound", "lower bound"}});
  for (const BenchProblem& problem : problems)
    table.add({problem.name, table.rows() + 1, problem.name, problem.buffers, problem.bound});
  Report report;
  report.add("problems", "", std::move(table));
  add_cells(report, *this, columns, [&](const BenchCell& cell, size_t row, size_t p) {
    const bool proved = cell.status == SolveStatus::kOptimal;
    const std::string text = searches         ? fmt::format("{}{}", cell.nodes, proved ? "" : "?")
                             : placed(row, p) ? fmt::format("{:.4f}", ratio(row, p))
                                              : "no plan";
    return fmt::format("{} {:>8.1f}", text, cell.ms);
  });
  Table sums({{"name", what.c_str(), true},
              {nullptr, searches ? "decisions" : nullptr},
              {nullptr, searches ? "bytes" : nullptr},
              {"mean_ratio", "mean ratio"},
              {"ms", "total ms"},
              {"proved", "proved lowest"},
              {"results", nullptr}});
  for (size_t row = 0; row < rows.size(); ++row) {
    std::vector<Json> results;
    double ms = 0;
    int64_t nodes = 0, bytes = 0, proved = 0;
    for (size_t p = 0; p < problems.size(); ++p) {
      const BenchCell& cell = cells[row][p];
      ms += cell.ms, nodes += cell.nodes;
      if (placed(row, p)) bytes += cell.bytes;
      if (cell.status == SolveStatus::kOptimal) ++proved;
      results.push_back(Json::object({{"bytes", cell.bytes},
                                      {"ratio", rounded(ratio(row, p), 6)},
                                      {"ms", rounded(cell.ms, 3)},
                                      {"nodes", cell.nodes},
                                      {"status", status_name(cell.status)}}));
    }
    sums.add({rows[row],
              nodes,
              bytes,
              number(mean_ratio(row), 4, 6),
              number(ms, 1, 3),
              {fmt::format("{} of {}", proved, problems.size()), proved},
              {"", Json::list(results)}});
  }
  report.add(searches ? "rows" : "planners", "", std::move(sums))
      .line("")
      .line(searches ? "Each cell shows decisions and milliseconds of CPU time; ? means that the "
                       "decisions did not suffice for a proof."
                     : "Each cell shows the ratio to the lower bound and milliseconds of CPU time; "
                       "the mean is geometric.");
  return report;
}

std::string BenchResults::svg() const {
  // Added to a ratio's distance from 1, so that ratio 1 has a position on a logarithmic scale.
  constexpr double kMin = 1e-4;
  double slowest = 1;
  for (const auto& row : cells)
    for (const BenchCell& cell : row) slowest = std::max(slowest, cell.ms);
  Panel ratios(*this, 40, "bytes above the lower bound", kMin, 1);
  for (double above : {1e-3, 1e-2, 1e-1, 1.0}) ratios.mark(above, fmt::format("{} %", 100 * above));
  ratios.mark(kMin, "lowest");
  Panel times(*this, 360, "milliseconds of CPU time", 1e-2, slowest);
  for (double ms = 1e-2; ms <= slowest; ms *= 10) times.mark(ms, fmt::format("{}", ms));
  std::string legend, names;
  for (size_t row = 0; row < rows.size(); ++row) {
    ratios.line(row, [&](size_t p) { return std::max(kMin, ratio(row, p) - 1); });
    times.line(row, [&](size_t p) { return std::max(1e-2, cells[row][p].ms); });
    legend += fmt::format("<text x=\"{:.0f}\" y=\"{}\" fill=\"{}\">{} ({:.4f})</text>\n",
                          ratios.right() + 16, 52 + 18 * row, ratios.colour(row),
                          html_escaped(rows[row]), mean_ratio(row));
  }
  for (size_t p = 0; p < problems.size(); ++p) {
    const double x = Panel::kLeft + Panel::kStep * (static_cast<double>(p) + 0.5);
    names += fmt::format("<text transform=\"translate({:.0f},640) rotate(40)\">{}</text>\n", x,
                         html_escaped(problems[p].name));
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"820\" "
             "viewBox=\"0 "
             "0 {0:.0f} 820\" font-family=\"sans-serif\" font-size=\"12\">\n"
             "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
             ratios.right() + 240) +
         ratios.svg() + times.svg() + names + legend + "</svg>\n";
}

StrategyResults try_strategies(const std::vector<const RecomputeStrategy*>& strategies,
                               const RecomputeProblem& problem) {
  Table table({{nullptr, "strategy", true},
               {nullptr, "peak"},
               {nullptr, "extra"},
               {nullptr, "recomputed"},
               {nullptr, "ms"},
               {nullptr, "certificate", true}});
  RecomputePlan last;
  for (const RecomputeStrategy* strategy : strategies) {
    Timed timed = solve(*strategy, problem, {problem.budget});
    last = std::move(timed.plans.front());
    table.add({strategy->name(), last.peak, percent(more_time(last.extra, problem), 2),
               last.runs.size() - problem.steps.size(), number(timed.ms, 1), certificate(last)});
  }
  const bool within = placed(last.status);
  return {std::move(table), std::move(last), within};
}

Table budget_table(const std::vector<const RecomputeStrategy*>& strategies,
                   const RecomputeProblem& problem, int count) {
  int64_t lowest = INT64_MAX;
  for (const RecomputeStrategy* strategy : strategies)
    lowest = std::min(lowest, solve(*strategy, problem, {0}).plans.front().peak);
  const int64_t highest = measure(problem, once_each(problem))->peak;
  std::vector<int64_t> budgets;
  for (int i = 0; i < count; ++i)
    budgets.push_back(lowest + (highest - lowest) / std::max(count - 1, 1) * i);
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
      row.push_back(placed(timed.plans[i].status)
                        ? percent(more_time(timed.plans[i].extra, problem), 2)
                        : "-");
    const int64_t extra = cost_bound(problem, budgets[i]) - base_cost(problem);
    row.push_back(percent(more_time(extra, problem), 2));
    table.add(std::move(row));
  }
  std::vector<Cell> times = {"ms"};
  for (const Timed& timed : all) times.push_back(number(timed.ms, 1));
  times.emplace_back("");
  table.add(std::move(times));
  return table;
}

}  // namespace tessera
