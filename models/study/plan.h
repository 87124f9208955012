// plan(), eager_picture() and budget_curve(): the memory that a configuration's training needs,
// computed before it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/plan_report.h"
#include "tessera/memory/recompute/recompute.h"
#include "tessera/models/training/run.h"
#include "tessera/runtime/text/report.h"

namespace tessera {

// Returns the memory plan of a training step, in the arena that it shares with the other steps, and
// the needs of the whole training, part by part, as far as known without opening the data. Throws
// ConfigError for an unknown pass.
PlanReport plan(const Run& run);

// Returns a recording of the allocations of a training step in eager mode, whatever config.mode
// says. Eager allocations cannot be predicted, so two steps run on generated batches, and the
// second is recorded (engine/allocation_trace.h).
PlanPicture eager_picture(const Run& run, const std::string& title);

// The Pareto curve of memory and time: the least time of a training for each memory.budget. All
// sizes in bytes, of the memory that memory.budget limits.
struct BudgetCurve {
  struct Point {
    int64_t budget = 0;     // value of memory.budget
    int64_t bytes = 0;      // need of the training under that budget
    BudgetRecord training;  // describes the step for a full batch
  };
  std::string title;        // "resnet50, batch 32"
  std::string strategy;     // memory.recompute
  double milliseconds = 0;  // spent on computing the curve
  std::vector<Point>
      points;  // from the smallest possible budget to the smallest that needs no recomputation

  Report report() const;
  std::string svg() const;   // a standalone drawing
  std::string html() const;  // a page with both
};

// Computes the curve for `count` budgets, at least 2, evenly spaced. Ignores memory.budget. Throws
// what planning throws.
BudgetCurve budget_curve(const Run& training, int count = 20);

// Returns the recomputation problem of a step for a full batch (memory/recompute/recompute.h),
// without a budget.
RecomputeProblem training_problem(const Run& training);

}  // namespace tessera
