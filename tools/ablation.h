// What each technique is worth: the step as it is, and with one thing after the other left out.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/config/config.h"

namespace tessera {

struct Variant {
  std::string name;                               // "without fuse_epilogues"
  std::vector<std::string> disabled_passes = {};  // CompileOptions
  std::vector<std::string> overrides = {};        // of the configuration
  std::string max_isa = {};                       // TESSERA_MAX_ISA of its process
};

// Of plans: the passes, in-place reuse, the order of updates, the planner. `timed`: also what
// changes nothing but the time.
std::vector<Variant> variants(const Config& config, bool timed);

// Tables of the variants measured in turn: each once in a round, so that a slow minute of the
// machine meets all of them. The fastest round counts; the spread is how much longer the slowest
// took.
//
// Prints the bytes of each variant's plan, and how long it takes to make.
void print_plan_ablation(const std::string& config, const std::vector<std::string>& overrides,
                         bool json);
// Prints bytes and times; each variant runs `steps` steps a round in a process of its own, because
// an instruction set is chosen once. Throws Error if such a process fails.
void print_bench_ablation(const std::string& config, const std::vector<std::string>& overrides,
                          int64_t steps, int64_t rounds, bool json);

}  // namespace tessera
