// What many planners make of many problems: one table, one file of numbers, one picture.
#pragma once

#include <string>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera {

struct BenchProblem {
  std::string name;  // of the file, without its folder and its ending
  int64_t buffers = 0;
  int64_t bound = 0;  // the lower bound
};

struct BenchCell {
  int64_t bytes = 0;
  SolveStatus status = SolveStatus::kUnknown;
  int64_t nodes = 0;  // decisions
  double ms = 0;      // of CPU time
};

struct BenchResults {
  std::string what;  // a row is one: "planner", "without"
  std::vector<std::string> rows;
  std::vector<BenchProblem> problems;
  std::vector<std::vector<BenchCell>> cells;  // [row][problem]

  // False where fixed buffers clash, so that there is no plan to speak of.
  bool placed(size_t row, size_t problem) const;
  double ratio(size_t row, size_t problem) const;  // to the lower bound
  double mean_ratio(size_t row) const;             // geometric, of those that are placed
  double total_ms(size_t row) const;
  int64_t total_nodes(size_t row) const;
  int64_t total_bytes(size_t row) const;  // of those that are placed
  int proved(size_t row) const;           // how many are proved lowest

  // As wide as asked: the columns go on below where they do not fit. Ratios and milliseconds, or
  // decisions and milliseconds for searches that are compared with one another.
  std::string ratio_table(int columns = 100) const;
  std::string node_table(int columns = 100) const;
  std::string json() const;
  // Ratios above, times below, both on logarithmic scales, a line for each row.
  std::string svg() const;
};

}  // namespace tessera
