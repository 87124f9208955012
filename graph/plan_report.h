// What a program needs, for people and for files: bytes by region and class, and who needs most.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/memory/plan_html.h"

namespace tessera {

struct CompiledGraph;  // compiled_graph.h

// A block of the arena.
struct PlannedTensor {
  std::string name;         // "%12", or "workspace"
  std::string op;           // what makes it: "conv2d"
  std::string module_path;  // where in the model: "layer1.0.conv1"
  std::string spec;         // "float32[8x28x28x6]", of the first value in it
  std::string group;        // activations | gradients | workspace
  int64_t bytes = 0;
  int64_t lower = 0, upper = 0;  // nodes, half-open
  int64_t offset = 0;            // in the arena
  bool recomputed = false;       // made before, and not kept until then
  std::string kept_by;           // the last node that reads it: "31 conv2d_weight_grad conv1"

  std::string title() const;  // "%12 conv2d", "%12 conv2d again"
};

// What was done so that the arena keeps to a budget. Times are nanoseconds of a step, estimated.
struct BudgetRecord {
  int64_t budget = -1;        // bytes of the arena; -1: there was none
  int64_t unconstrained = 0;  // what it takes with each step once
  int recomputed = 0;         // steps that run again
  int64_t time = 0;           // of all steps once
  int64_t extra = 0;          // of those that run again
  int64_t bound = 0;          // no way to keep to the budget takes less extra time
  std::string strategy;       // that chose them; empty where all fits

  // What runs again costs, and costs at least: 0.02 is 2 % of a step.
  double overhead() const;
  double min_overhead() const;
  std::string text() const;  // "31 steps run again, 1.9 % of a step by estimate"; or that none do
};

// All sizes in bytes.
struct PlanReport {
  int64_t arena = 0;        // what the plan takes
  int64_t lower_bound = 0;  // the most that is live at one time: no plan can take less
  int64_t unplanned = 0;    // the sum of all blocks: without sharing
  int64_t persistent = 0;   // parameters, optimizer state, statistics
  int64_t slots = 0;        // arguments and results
  std::string arena_of;     // the step that arena and lower_bound are of, where it is another one
  int64_t trainable = -1, frozen = 0;  // numbers in parameters; -1: nobody said
  int64_t forward_ends = -1;           // the first node of the backward pass; -1: there is none
  int64_t peak_time = 0;               // the first time, a node's number, at which the most is live
  // parameters, optimizer, statistics, slots, what of these is saved for the gradient of a compiled
  // function, and what is live in the arena at its peak_time time: activations, gradients,
  // workspace.
  std::map<std::string, int64_t> classes;
  int tensors = 0, nodes = 0;
  BudgetRecord budget;
  std::string planner;
  std::string device = "cpu:0";  // that it is planned for
  int64_t alignment = 1;         // of every block there
  // Of the arena, in the order of the problem; in small pieces: only the memory that is planned is
  // asked for in large ones.
  std::deque<PlannedTensor> blocks;
  std::vector<std::string> node_names;  // "conv2d layer1.0.conv1"
  Problem problem;                      // what was planned, for drawing and for files
  Plan plan;
  // Everything that the program around the step asks for, by name: the regions with the slots of
  // all steps, and loaders, data and checkpoints. Empty where nobody said.
  std::vector<std::pair<std::string, int64_t>> parts;      // of the host's memory
  std::vector<std::pair<std::string, int64_t>> gpu_parts;  // of the GPU's, where it runs on one
  bool parts_complete = true;  // false: opening the data may tell of more
  std::string inference;       // what inference needs besides, as JSON; empty where nobody said
  // To the part of that name, if there is one.
  void add_part(const std::string& name, int64_t bytes, bool on_gpu = false);

  int64_t total() const { return arena + persistent + slots; }
  int64_t need() const;      // all parts on the host; total() where nobody told of parts
  int64_t gpu_need() const;  // all parts on the GPU
  double ratio() const;      // arena / lower bound
  std::vector<PlannedTensor> largest(size_t count) const;
  // A line for each of the largest that live when the arena is peak_time, with op and place.
  std::string peak_tensors_text(size_t count = 5) const;
  std::string json() const;  // with all blocks: the plan as a file
  void json(const std::function<void(std::string_view)>& piece) const;  // in small pieces
  std::string text() const;
  std::string largest_text() const;  // its last table
  // Of the blocks whose name, op or place contains the word: where they stand, from when to when,
  // and who keeps them alive. Throws ConfigError where there is none.
  std::string why(const std::string& word) const;
  PlanPicture picture(const std::string& title) const;
};

PlanReport plan_report(const CompiledGraph& compiled);

}  // namespace tessera
