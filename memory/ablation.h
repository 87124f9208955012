// What each inference of the exact search (the planner `optimal`) is worth: proofs with one of them
// switched off. None changes what is found true, only how many decisions it takes.
//
// Nothing here throws; all of it may be called by several threads at once.
#pragma once

#include <string_view>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera {

struct Ablation {
  std::string_view name;         // of the inference: "twins"
  std::string_view explanation;  // what it infers, in one sentence
};

// All that can be switched off.
const std::vector<Ablation>& ablations();

// What `optimal` would prove without the inference of that name, and with all of them where none
// is called so. Compare the nodes, the time and the verdict with `optimal`'s own.
Solution prove_without(std::string_view inference, const Problem& problem,
                       const Limits& limits = {});

}  // namespace tessera
