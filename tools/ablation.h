// Ablation: measures the step as it is, and with one technique after the other disabled.
#pragma once

#include <string>
#include <vector>

#include "tessera/models/config/config.h"

namespace tessera {

struct Variant {
  std::string name;                               // "without fuse_epilogues"
  std::vector<std::string> disabled_passes = {};  // CompileOptions
  std::vector<std::string> overrides = {};        // for the configuration
  std::string max_isa = {};                       // TESSERA_MAX_ISA of the process
};

// Returns the variants of a plan: the passes, in-place reuse, the order of updates, the planner. If
// `timed`, adds those that change only the time.
std::vector<Variant> variants(const Config& config, bool timed);

// The functions below print tables of the variants. Each variant runs once per round, so that a
// slow minute of the computer affects all of them. The fastest round counts; the spread is how much
// longer the slowest took.
//
// Prints the bytes of each variant's plan, and the time of planning.
void print_plan_ablation(const std::string& config, const std::vector<std::string>& overrides,
                         bool json);
// Prints bytes and times. Each variant runs `steps` steps per round in a separate process, because
// a process chooses its instruction set once. Throws Error if such a process fails.
void print_bench_ablation(const std::string& config, const std::vector<std::string>& overrides,
                          int64_t steps, int64_t rounds, bool json);

}  // namespace tessera
