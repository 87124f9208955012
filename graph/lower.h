// lower: from what was recorded to what will run. lower.cc is the list of passes, in order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/graph/graph.h"

namespace tessera {

struct LowerSettings {
  std::vector<std::string> disabled_passes;  // passes not to run, by name
  // Called with the graph as text after the pass of this name ("capture": before the first).
  std::string dump_after;
  std::function<void(const std::string&)> dump;
};

struct PassRecord {
  std::string name;
  int fired = 0;
  double milliseconds = 0;
};

// "dead_code, common_subexpressions, ..., in_place"; in_place is a switch of lifetimes().
std::string pass_names();

// Runs every pass that is not switched off and verifies the graph after each. Throws ConfigError
// for an unknown pass name and InternalError, naming the pass, when verify() finds a fault.
std::vector<PassRecord> lower(Graph& graph, const LowerSettings& settings);

bool pass_is_on(const LowerSettings& settings, const std::string& name);

}  // namespace tessera
