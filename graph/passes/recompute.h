// Rematerialization: rewrites a graph so that some nodes run again and their values need not be
// kept. graph/arena_budget.h chooses the nodes.
#pragma once

#include <vector>

#include "tessera/graph/graph.h"

namespace tessera {

struct Repeated {
  Graph graph;
  std::vector<int> origin;  // for each node: its index in the original graph
};

// Returns the graph that runs `nodes` in this order. `nodes` contains each node that is not a view
// at least once, and each update once. A recomputed node makes new values, which later users read;
// their views are recomputed too. Values of the first runs keep their ids.
Repeated repeat_nodes(const Graph& graph, const std::vector<int>& nodes);

// Returns true if each output is a view of an input.
bool only_views(const Node& node);

}  // namespace tessera
