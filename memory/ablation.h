// Ablations of the exact search (the planner `optimal`): proofs with one inference switched off.
// Inferences change only the number of decisions, never what can be proved.
//
// Nothing here throws. Thread-safe.
#pragma once

#include <span>
#include <string_view>

#include "tessera/memory/plan.h"

namespace tessera {

namespace planning {
struct Inferences;
}

struct Ablation {
  std::string_view name;         // "duplicates"
  std::string_view explanation;  // one sentence on the inference
  bool planning::Inferences::*use;
};

// Returns all inferences that can be switched off.
std::span<const Ablation> ablations();

// Runs `optimal` without the inference of that name, or with all of them if there is none of that
// name. Compare the nodes, the time and the status with those of `optimal`.
Solution prove_without(std::string_view inference, const Problem& problem,
                       const Limits& limits = {});

}  // namespace tessera
