// CompiledGraph: what a step will do and where each byte of it lies, settled before any memory is
// taken.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/graph/lifetimes.h"
#include "tessera/graph/lower.h"
#include "tessera/graph/plan_report.h"
#include "tessera/graph/slot_layout.h"
#include "tessera/runtime/context.h"

namespace tessera {

// The plan of one device.
struct DevicePlan {
  Device device;
  Problem problem;
  Plan plan;
  size_t slot_bytes = 0;
  size_t arena_bytes() const { return static_cast<size_t>(plan.bytes); }
};

// A lowered graph with an algorithm for each node and an offset for each block. It holds no memory
// but that of constants, and nothing changes it, so several programs (program.h) may execute one.
struct CompiledGraph {
  // Lowers the graph, chooses algorithms in the settings of the scope, keeps to
  // options.arena_budget and plans. Throws what lower() does, Error for a planner's faulty plan,
  // and BudgetTooSmall.
  CompiledGraph(Graph captured, const CompileOptions& options);

  Settings settings;  // of the scope in which it was made
  Graph graph;
  std::vector<PassRecord> passes;
  std::vector<int64_t> scratch_bytes;   // of each node
  std::vector<std::string> algorithms;  // the name of each node's Algorithm; empty for views
  BudgetRecord budget;
  Lifetimes lifetimes;
  std::string planner;
  std::vector<DevicePlan> plans;  // one for each device that it runs on: GPUs first
  std::vector<int64_t> offsets;  // of each block in its device's arena or, for a slot, in its slots
  std::vector<size_t> input_offsets;  // of each argument in the slots, in bytes
  // True with verify_plan: red zones stand in the plan, and nodes also run alone, with slots of
  // their own that begin at alone_offsets of each plan (plan_guard.h).
  bool guarded = false;
  std::vector<size_t> alone_offsets;
  // Given for a program on one GPU without verify_plan.
  std::optional<SlotLayout> slot_layout;
  size_t last_user = 0;  // nodes up to the last that reads the argument slot_layout->ahead

  // The first of its devices, and what is planned there.
  Device device() const { return plans.front().device; }
  const Problem& problem() const { return plans.front().problem; }
  const Plan& plan() const { return plans.front().plan; }
  size_t arena_bytes() const { return plans.front().arena_bytes(); }
  size_t slot_bytes() const { return plans.front().slot_bytes; }
  size_t output_offset(size_t i) const;  // of result i in the slots, in bytes
  size_t index_of(Device device) const;  // in plans; plans.size() where there is none

 private:
  void choose_algorithms();
  void keep_to_budget(const CompileOptions& options);
  void make_plans(const CompileOptions& options);
  void make_plan(const CompileOptions& options, DevicePlan& plan);
  void place_slots();
  bool may_run_ahead() const;
  void find_last_user();
};

// Calls fn(input specs, context) where `node` stands in the model, which errors then name.
void at_node(const Graph& graph, const Node& node,
             const std::function<void(const Specs&, Context&)>& fn);

}  // namespace tessera
