// BenchResults: the plans of many planners for many problems, as a table, as JSON and as a drawing;
// tables of strategies of recomputation.
#pragma once

#include <string>
#include <vector>

#include "tessera/memory/plan.h"
#include "tessera/memory/recompute/recompute.h"
#include "tessera/runtime/text/report.h"

namespace tessera {

struct BenchProblem {
  std::string name;  // file name without folder and extension
  int64_t buffers = 0;
  int64_t bound = 0;  // the lower bound
};

struct BenchCell {
  int64_t bytes = 0;
  SolveStatus status = SolveStatus::kUnknown;
  int64_t nodes = 0;  // decisions
  double ms = 0;      // CPU time
};

struct BenchResults {
  std::string what;  // kind of the rows: "planner", "without"
  std::vector<std::string> rows;
  std::vector<BenchProblem> problems;
  std::vector<std::vector<BenchCell>> cells;  // [row][problem]

  // Returns false if fixed buffers overlap, so that there is no plan.
  bool placed(size_t row, size_t problem) const;
  double ratio(size_t row, size_t problem) const;  // to the lower bound
  double mean_ratio(size_t row) const;             // geometric, over placed problems

  // Returns tables at most `columns` wide, continued below if necessary: ratios and milliseconds;
  // for rows of a search without some inference, decisions and milliseconds.
  Report report(int columns = 100) const;
  // Draws ratios above and times below, both on logarithmic scales, a line for each row.
  std::string svg() const;
};

// The plans of strategies of recomputation for problem.budget, and the plan of the last strategy.
// Every plan is checked; try_strategies() and budget_table() throw DataError if one is wrong.
struct StrategyResults {
  Table table;
  RecomputePlan last;
  bool fits = false;  // the last plan is within the budget
};
StrategyResults try_strategies(const std::vector<const RecomputeStrategy*>& strategies,
                               const RecomputeProblem& problem);

// Returns the extra time of each strategy for `count` budgets, from the lowest peak of any strategy
// to the peak without recomputation.
Table budget_table(const std::vector<const RecomputeStrategy*>& strategies,
                   const RecomputeProblem& problem, int count);

}  // namespace tessera
