// What a configuration's training step needs, asked before anything runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/plan_report.h"
#include "tessera/memory/recompute/recompute.h"
#include "tessera/models/training/run.h"

namespace tessera {

// What a training step needs, in the arena that it shares with the other steps of the training,
// and, in its parts, what the whole training does, as far as is known without opening the data.
// Throws ConfigError for an unknown pass.
PlanReport plan(const Run& run);

// What a training step asks for in eager mode, whatever config.mode says: nothing is known of it
// ahead, so two steps run on generated batches, and the second is recorded
// (engine/allocation_trace.h).
PlanPicture eager_picture(const Run& run, const std::string& title);

// Bytes against time: what a training needs at least of each, as memory.budget trades one for the
// other. All sizes in bytes, of the memory that memory.budget is of.
struct BudgetCurve {
  struct Point {
    int64_t budget = 0;     // what memory.budget would say
    int64_t bytes = 0;      // what the training then asks for
    BudgetRecord training;  // of the step for a full batch
  };
  std::string title;        // "resnet50, batch 32"
  std::string strategy;     // memory.recompute
  double milliseconds = 0;  // that finding all of it took
  std::vector<Point>
      points;  // from the smallest budget there is to the one that nothing is saved for

  std::string text() const;  // a table
  std::string json() const;
  std::string svg() const;   // a picture of its own
  std::string html() const;  // a page with both
};

// So many budgets, at least 2, evenly apart. Whatever memory.budget says. Throws what planning
// throws.
BudgetCurve budget_curve(const Run& training, int count = 20);

// Returns what could be computed again in a step for a full batch (memory/recompute/recompute.h),
// without a budget.
RecomputeProblem training_problem(const Run& training);

}  // namespace tessera
