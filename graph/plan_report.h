// PlanReport: the memory of a program by region and class and its largest tensors, as text and
// JSON.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/memory/plan_draw.h"

namespace tessera {

struct CompiledGraph;  // compiled_graph.h
struct MemoryItem;     // runtime/memory_item.h

// The first entry in the JSON of a plan; it identifies the version of the format.
inline constexpr const char* kPlanFormat = "tessera plan 2";

// A block of the arena.
struct PlannedTensor {
  std::string name;         // "%12", or "workspace"
  std::string op;           // producer: "conv2d"
  std::string module_path;  // "layer1.0.conv1"
  std::string spec;         // "float32[8x28x28x6]", of the first value in it
  std::string group;        // activations | gradients | workspace
  int64_t bytes = 0;
  int64_t lower = 0, upper = 0;  // nodes, half-open
  int64_t offset = 0;            // in the arena
  bool recomputed = false;       // computed before and not kept
  std::string kept_by;           // last user: "31 conv2d_weight_grad conv1"

  std::string title() const;  // "%12 conv2d", "%12 conv2d recomputed"
};

// The recomputation that keeps the arena within a budget. Times are estimated nanoseconds per step.
struct BudgetRecord {
  int64_t budget = -1;        // bytes of the arena; -1: no budget
  int64_t unconstrained = 0;  // bytes of the arena without recomputation
  int recomputed = 0;         // number of recomputed nodes
  int64_t time = 0;           // time of all nodes, each once
  int64_t extra = 0;          // time of recomputed nodes
  int64_t bound = 0;          // lower bound of `extra` for this budget
  std::string strategy;       // empty if nothing is recomputed

  // Return the recomputation overhead and a lower bound of it: 0.02 is 2 % of a step.
  double overhead() const;
  double min_overhead() const;
  std::string text() const;  // "31 nodes recomputed, 1.9 % of a step by estimate", or that none are
};

// All sizes in bytes.
struct PlanReport {
  int64_t arena = 0;                   // size of the plan
  int64_t lower_bound = 0;             // peak of live bytes: no plan can be smaller
  int64_t unplanned = 0;               // sum of all blocks: without sharing of memory
  int64_t persistent = 0;              // parameters, optimizer state, statistics
  int64_t slots = 0;                   // arguments and results
  std::string arena_of;                // the step of arena and lower_bound, if another
  int64_t trainable = -1, frozen = 0;  // numbers in parameters; -1: unknown
  int64_t forward_ends = -1;           // first backward node; -1: none
  int64_t peak_time = 0;               // first node with the most live bytes
  // Bytes of parameters, optimizer, statistics, slots, slots saved for the gradient of a compiled
  // function, and of the live tensors of the arena at peak_time: activations, gradients, workspace.
  std::map<std::string, int64_t> classes;
  std::map<std::string, int64_t> dtypes;  // bytes of those live tensors, without workspace
  int tensors = 0, nodes = 0;
  BudgetRecord budget;
  std::string planner;
  std::string device = "cpu:0";  // device of the plan
  int64_t alignment = 1;         // bytes, for every block
  // The blocks of the arena in the order of the problem. A deque allocates in small chunks: only
  // planned memory is allocated in large blocks.
  std::deque<PlannedTensor> blocks;
  std::vector<std::string> node_names;  // "conv2d layer1.0.conv1"
  Problem problem;                      // the planner's input, for drawings and files
  Plan plan;
  // All memory of the program around the step, by name: the regions with the slots of all steps,
  // and loaders, data and checkpoints. Empty if unknown.
  std::vector<std::pair<std::string, int64_t>> parts;      // host memory
  std::vector<std::pair<std::string, int64_t>> gpu_parts;  // GPU memory, if it runs on one
  bool parts_complete = true;                              // false: opening the data may add parts
  std::string inference;  // additional needs of inference, as JSON; may be empty
  // Adds the blocks to the parts of their names.
  void add_parts(const std::vector<MemoryItem>& blocks, bool on_gpu = false);

  int64_t total() const { return arena + persistent + slots; }
  int64_t need() const;      // all parts on the host; total() if there are none
  int64_t gpu_need() const;  // all parts on the GPU
  double ratio() const;      // arena / lower bound
  std::vector<PlannedTensor> largest(size_t count) const;
  // Returns a line for each of the largest tensors that are live at peak_time, with op and module
  // path.
  std::string peak_tensors_text(size_t count = 5) const;
  std::string json() const;                                             // the plan with all blocks
  void json(const std::function<void(std::string_view)>& piece) const;  // in chunks
  std::string text() const;
  std::string largest_text() const;  // the last table of text()
  // Describes the blocks whose name, op or module path contains `word`: offset, lifetime and last
  // user. Throws ConfigError if there is none.
  std::string why(const std::string& word) const;
  PlanPicture picture(const std::string& title) const;
};

PlanReport plan_report(const CompiledGraph& compiled);

// Returns the differences: sizes by region and class, then tensors that only one plan has or whose
// size or lifetime differs, the largest change first. For equal plans returns one line that says
// so. The names are for messages. Throws ConfigError if a text is not such a plan.
std::string diff_plans(const std::string& a, const std::string& name_a, const std::string& b,
                       const std::string& name_b);

}  // namespace tessera
