// A graph in which some nodes run again, so that what they make need not be kept. Which ones is for
// others to say (graph/arena_budget.h); here the graph is only rewritten.
#pragma once

#include <vector>

#include "tessera/graph/graph.h"

namespace tessera {

struct Repeated {
  Graph graph;
  std::vector<int> origin;  // of each node: which it is of the graph given
};

// `nodes`: those that are no views, in the order in which they run; each at least once, no update
// twice. What runs again makes values of its own, and whoever reads later reads these; views are
// made anew where what they are a part of was. Values of the first runs keep their numbers.
Repeated repeat_nodes(const Graph& graph, const std::vector<int>& nodes);

// Whether nothing is computed: each output is a part of an input.
bool only_views(const Node& node);

}  // namespace tessera
