// CompiledGraph: a lowered graph with an algorithm for each node and a planned offset for each
// block, made before any memory is allocated.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/graph/lifetimes.h"
#include "tessera/graph/lower.h"
#include "tessera/graph/plan_report.h"
#include "tessera/runtime/context.h"

namespace tessera {

// The plan of one device. Its slots are the I/O buffers: the memory of arguments and results.
struct DevicePlan {
  Device device;
  Problem problem;
  Plan plan;
  size_t slot_bytes = 0;
  size_t arena_bytes() const { return static_cast<size_t>(plan.bytes); }
};

// The order of the slots of a program that runs ahead of the host, in bytes: the argument
// `prefetched` (-1: none), which has at least half of the bytes of all arguments; the other
// arguments from `arguments` on; the results from `results` on, followed at `refused` by an int64,
// the device's count of skipped updates. So the other arguments are one copy, and the results with
// the count are another (host_staging.h).
struct SlotLayout {
  int prefetched = -1;
  size_t arguments = 0, results = 0, refused = 0;
  size_t end() const { return refused + sizeof(int64_t); }
};

// Contains no memory except constants. Immutable after construction, so several programs
// (program.h) may execute one CompiledGraph.
struct CompiledGraph {
  // Lowers the graph, chooses algorithms with the current settings, recomputes values to meet
  // options.arena_budget, and plans. Throws what lower() throws, Error for an invalid plan of a
  // planner, and BudgetTooSmall.
  CompiledGraph(Graph captured, const CompileOptions& options);

  Settings settings;  // from the constructor's scope
  Graph graph;
  std::vector<PassRecord> passes;
  std::vector<int64_t> scratch_bytes;   // for each node
  std::vector<std::string> algorithms;  // name of each node's Algorithm; empty for views
  BudgetRecord budget;
  Lifetimes lifetimes;
  std::string planner;
  std::vector<DevicePlan> plans;  // one for each device that the graph runs on: GPUs first
  std::vector<int64_t> offsets;   // for each block: in the arena, or in the slots if it is a slot
  std::vector<size_t> input_offsets;  // for each argument: bytes into the slots
  // True with verify_plan: the plan contains red zones, and nodes also run alone, in slots of their
  // own that begin at alone_offsets of each plan (plan_guard.h).
  bool guarded = false;
  std::vector<size_t> alone_offsets;
  // Set for a program on one GPU without verify_plan.
  std::optional<SlotLayout> slot_layout;
  size_t last_user = 0;  // one past the last node that reads the prefetched argument

  // These describe the first of plans.
  Device device() const { return plans.front().device; }
  const Problem& problem() const { return plans.front().problem; }
  const Plan& plan() const { return plans.front().plan; }
  size_t arena_bytes() const { return plans.front().arena_bytes(); }
  size_t slot_bytes() const { return plans.front().slot_bytes; }
  size_t output_offset(size_t i) const;  // bytes into the slots
  size_t index_of(Device device) const;  // in plans; plans.size() if the device has none

 private:
  void choose_algorithms();
  void keep_to_budget(const CompileOptions& options);
  void make_plans(const CompileOptions& options);
  void make_plan(const CompileOptions& options, DevicePlan& plan);
  void place_slots();
  bool may_run_ahead() const;
  void find_last_user();
};

// Calls fn(input specs, context) for `node`; an Error that it throws names the node's module path
// and op.
void at_node(const Graph& graph, const Node& node,
             const std::function<void(const Specs&, Context&)>& fn);

}  // namespace tessera
