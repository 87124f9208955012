// Options of `trainer plan`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/lower.h"
#include "tessera/tools/command_line.h"

namespace tessera {

struct PlanOptions {
  std::string config, csv, html, svg, why, recompute;
  std::vector<std::string> overrides, beside, diff;
  int64_t max_bytes = -1, limit = -1, device_memory = -1;  // -1: none
  double slowdown = 0;
  int processes = 1;
  bool json = false, draw = false, max_batch = false, ablation = false, budgets = false;
  CompileOptions compile;

  void add_to(CLI::App& plan);
  // Throws ConfigError if an option is missing, or if two write to standard output, as "--csv -"
  // and "--json" do.
  void check() const;

  bool is_drawn() const { return draw || !svg.empty(); }
  // Returns true if the options ask for the plan, or for nothing else.
  bool shows_plan() const {
    const bool answered = is_drawn() || !html.empty() || !csv.empty() || !recompute.empty() ||
                          !compile.dump_after.empty();
    return json || !why.empty() || !answered;
  }
};

}  // namespace tessera
