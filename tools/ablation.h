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

// Bytes of each variant's plan, and how long it takes to make.
void say_plan_ablation(const std::string& config, const std::vector<std::string>& overrides,
                       bool json);
// Bytes and times; each variant runs `steps` steps in a process of its own, three times in turn
// (the fastest counts), because an instruction set is chosen once. Throws Error where such a
// process fails.
void say_bench_ablation(const std::string& config, const std::vector<std::string>& overrides,
                        int64_t steps, bool json);

}  // namespace tessera
