// The memory that a configuration's training needs, computed before it runs: the plan, its
// pictures, the largest batch, the curve of memory and time, on a device that need not be present.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tessera/graph/plan_report.h"
#include "tessera/memory/recompute/recompute.h"
#include "tessera/models/training/run.h"
#include "tessera/runtime/logical_devices.h"
#include "tessera/runtime/text/report.h"

namespace tessera {

// Returns the memory plan of a training step, in the arena that it shares with the other steps, and
// the needs of the whole training, part by part, as far as known without opening the data. Throws
// ConfigError for an unknown pass.
PlanReport plan(const Run& run);

// The device that a plan is for. While this exists, a GPU that the configuration names is described
// to the process (runtime/logical_devices.h): a model such as gpu:H100, or the GPU of this
// computer.
class PlanDevice {
 public:
  // Replaces config.device by the described device. `memory` is that of the GPU, -1: of the named
  // model. A CPU is not described.
  PlanDevice(Config& config, int64_t memory);

  bool is_described() const { return described_ != nullptr; }
  int64_t memory() const { return memory_; }  // bytes of the GPU, -1: unknown
  // Returns a message of several lines for each need that exceeds a limit, with what would fit:
  // `max_bytes` (-1: none) and memory.limit limit the host's, memory() and memory.gpu_limit the
  // GPU's. Throws what planning throws.
  std::vector<std::string> exceeded(const Run& run, const PlanReport& report,
                                    int64_t max_bytes) const;
  // Returns the caveats of a plan, in lines.
  std::string remarks(const Run& run, const PlanReport& report) const;

 private:
  int64_t memory_;
  std::string memory_name_ = "--device-memory";
  std::unique_ptr<DescribedDevice> described_;
};

// The largest batch whose training fits a limit.
struct LargestBatch {
  int64_t batch = 0;  // 0: not even one image
  Report report;
};

// Searches it (models/training/memory_limit.h). `limit` is in bytes of host memory, -1:
// memory.limit or memory.budget; it is ignored where device.memory() is known, which is then the
// limit. `slowdown` above 0 allows to recompute for that part of a step. Throws ConfigError without
// any limit.
LargestBatch largest_batch_report(const Run& run, const PlanDevice& device, int64_t limit,
                                  double slowdown);

// Returns the picture of plan(). In eager mode, which has no plan, returns a recording of the
// allocations of a training step: they cannot be predicted, so two steps run on generated batches,
// and the second is recorded (engine/allocation_trace.h).
PlanPicture plan_picture(const Run& run);

// Returns the planning problem as CSV (memory/plan_csv.h). Each block is named after its tensor, op
// and module: "%12.conv2d.layer1.0.conv1".
std::string problem_csv(const Run& run);

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

// The memory of the steps that verify_plan() ran.
struct VerifyResult {
  int64_t steps = 0;
  size_t plan_bytes = 0;       // in training
  size_t arena_bytes = 0;      // including red zones
  size_t unplanned_bytes = 0;  // without sharing

  std::string text() const;
};

// Runs `steps` training steps on generated batches, every third one smaller and followed by an
// evaluation, in three ways: with planner `none`; with the training's plan and its ownership
// replayed; and with that plan watched: dead bytes poisoned, red zones between blocks, ownership
// replayed. Throws InternalError if a kernel uses bytes of others, or if a loss or a persistent
// value differs in a bit. Throws PlanInfeasible before anything runs if the training or one of
// these ways needs more than memory.limit.
VerifyResult verify_plan(const Run& run, int64_t steps = 9);

}  // namespace tessera
