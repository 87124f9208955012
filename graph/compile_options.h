// How a function of tensors becomes a program: read by compile(), the passes and Program.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tessera {

class Arena;    // arena.h
class Planner;  // memory/plan.h

struct CompileOptions {
  bool eager = false;                             // run the function as it is, without a graph
  const Planner* planner = nullptr;               // nullptr: "best"
  std::vector<std::string> disabled_passes = {};  // passes not to run (pass_names() in lower.h)
  // Print the graph of the first signature to stdout after this pass; "capture": before the first.
  std::string dump_after = {};
  // Watch the plan while it runs: the ownership replay at once, red zones between blocks and a
  // PlanGuard around every node (plan_guard.h). Throws InternalError where the plan is at fault,
  // OpError (runtime/error.h) where a kernel is. Costs bytes and time.
  bool verify_plan = false;
  // Only the ownership replay, of the plan as it is without red zones. Throws InternalError.
  bool replay_plan = false;
  std::shared_ptr<Arena> arena = {};  // shared with other compiled functions; nullptr: its own
};

}  // namespace tessera
