// CompileOptions: how a function of tensors becomes a program. Read by compile(), passes and
// Program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

class Arenas;             // arena.h
class Planner;            // memory/plan.h
class RecomputeStrategy;  // memory/recompute/recompute.h
class CostModel;          // cost_model.h

// The treatment of a signature beyond CompileOptions::max_signatures (PyTorch: the recompile
// limit).
enum class WhenFull : uint8_t {
  grow,         // compiles it too; a warning at the limit names the difference
  refuse,       // throws Error
  drop_oldest,  // evicts the least recently used program
};

struct CompileOptions {
  bool eager = false;                // run the function op by op, without a graph
  const Planner* planner = nullptr;  // nullptr: "best"
  // Treats parameters and buffers as constants with their current values (freezing): results that
  // depend on constants alone are computed once, and the store may then be freed. For functions
  // without updates.
  bool constant_parameters = false;
  // Maximum bytes of the arena on the device of the step; -1: no maximum. A larger step recomputes
  // some values instead of keeping them, at the least cost and with the same bits. Throws
  // BudgetTooSmall (arena_budget.h), which reports the minimum.
  int64_t arena_budget = -1;
  const RecomputeStrategy* recompute = nullptr;   // how values are chosen; nullptr: "best"
  std::shared_ptr<const CostModel> costs = {};    // times of nodes; nullptr: RooflineCosts
  std::vector<std::string> disabled_passes = {};  // passes not to run (pass_names() in lower.h)
  // Prints the graph of the first signature to stdout after this pass; "capture": before all
  // passes.
  std::string dump_after = {};
  // Verifies the plan at run time: the ownership replay at once, red zones between blocks and a
  // PlanGuard around every node, which also runs on separate copies (plan_guard.h). Throws
  // InternalError if the plan is wrong, OpError (runtime/error.h) if a kernel is. Needs more slots.
  bool verify_plan = false;
  // On one GPU: launches a step as one CUDA graph from the second run on. Same bits.
  bool cuda_graph = true;
  // Runs only the ownership replay, on the plan without red zones. Throws InternalError.
  bool replay_plan = false;
  // Each signature has a program with slots of its own, so arguments with ever new shapes take more
  // and more memory.
  size_t max_signatures = 16;
  WhenFull when_full = WhenFull::grow;
  std::shared_ptr<Arenas> arenas = {};  // shared with other compiled functions; nullptr: its own
};

}  // namespace tessera
