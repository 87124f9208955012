// How a function of tensors becomes a program: read by compile(), the passes and Program.
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

// What a compiled function does with a signature beyond CompileOptions::max_signatures.
enum class WhenFull : uint8_t {
  grow,         // compiles it too; a warning at the limit says what differs
  refuse,       // throws Error
  drop_oldest,  // lets the program go that was used least recently
};

struct CompileOptions {
  bool eager = false;                // run the function as it is, without a graph
  const Planner* planner = nullptr;  // nullptr: "best"
  // Parameters and buffers are constants, by their values of now: what is computed of them alone is
  // computed once, and the store that they stand in may then go. For functions that update nothing.
  bool constant_parameters = false;
  // Bytes that the arena on the device of the step may have. Where it would need more, some of what
  // it makes is computed again instead of kept, at the least cost; same bits. Throws BudgetTooSmall
  // (arena_budget.h), which says how many it needs at least. -1: as many as it takes.
  int64_t arena_budget = -1;
  const RecomputeStrategy* recompute = nullptr;   // how that is chosen; nullptr: "best"
  std::shared_ptr<const CostModel> costs = {};    // what steps take; nullptr: RooflineCosts
  std::vector<std::string> disabled_passes = {};  // passes not to run (pass_names() in lower.h)
  // Print the graph of the first signature to stdout after this pass; "capture": before the first.
  std::string dump_after = {};
  // Watch the plan while it runs: the ownership replay at once, red zones between blocks and a
  // PlanGuard around every node, which also runs on copies of its own (plan_guard.h). Throws
  // InternalError if the plan is at fault, OpError (runtime/error.h) if a kernel is. Takes more
  // slots.
  bool verify_plan = false;
  // On one GPU: from the second run on a step is one CUDA graph that is launched as a whole. Same
  // bits.
  bool cuda_graph = true;
  // Only the ownership replay, of the plan as it is without red zones. Throws InternalError.
  bool replay_plan = false;
  // Each signature has a program with slots of its own, so arguments whose shapes always differ
  // take more and more memory.
  size_t max_signatures = 16;
  WhenFull when_full = WhenFull::grow;
  std::shared_ptr<Arenas> arenas = {};  // shared with other compiled functions; nullptr: its own
};

}  // namespace tessera
