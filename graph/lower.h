// lower(): turns a captured graph into the one that runs. lower.cc is the list of passes, in order.
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/compile_options.h"
#include "tessera/graph/graph.h"

namespace tessera {

struct PassRecord {
  std::string name;
  int fired = 0;
  double milliseconds = 0;
};

// Returns "simplify", "dead_code", "common_subexpressions" ... "in_place"; the last is a switch of
// lifetimes().
std::vector<std::string> pass_names();

// Runs every pass that is not disabled and verifies the graph after each. Throws ConfigError for an
// unknown pass name and InternalError, naming the pass, if verify() finds a fault.
std::vector<PassRecord> lower(Graph& graph, const CompileOptions& options);

bool pass_is_on(const CompileOptions& options, const std::string& name);

}  // namespace tessera
