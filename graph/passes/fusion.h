// Helpers of the fusion passes.
#pragma once

#include "tessera/graph/graph.h"

namespace tessera {

// Returns whether node `consumer` alone reads this value, once, and the value is an intermediate
// one and the only output of a node on the same device.
bool is_sole_user(const Graph& graph, const std::vector<std::vector<int>>& users, int consumer,
                  ValueId id);

// A pair of nodes that may be fused: the only output of `producer` has `consumer` as its only user.
struct FusionSite {
  int producer = -1, consumer = -1;
  int fused_input = 0;  // the consumer's input that is the producer's output
  int at = -1;          // index of the fused node: that of one of them
};

// Returns the site at input `fused_input` of node `consumer`; producer is -1 in two cases:
//   - The value has another user, or is not made by a node with one output on the same device and
//     with the consumer's full shape.
//   - Neither node can move to the other's position. The producer would read an overwritten value
//     there or keep more bytes live; the consumer has an input that does not exist there yet.
FusionSite fusion_site(const Graph& graph, const std::vector<std::vector<int>>& users, int consumer,
                       int fused_input);

// Returns the more specific of two module paths if one contains the other, else both, joined by
// '+'.
std::string joined_module_path(const std::string& first, const std::string& second);

// Returns the inputs of a node after another node was fused into its op.
std::vector<ValueId> fused_inputs(const FusedOp& fused, const Node& fused_consumers,
                                  const Node& other);

// Drops nodes without an op, which fusion leaves.
void erase_dead_nodes(Graph& graph);

// Calls fuse(node, input) for the inputs of each node until it returns true, and begins the node
// again then if `again` is set. Drops dead nodes and returns how often `fuse` returned true.
template <class Fuse>
int fuse_inputs(Graph& graph, Fuse&& fuse, bool again = false) {
  int fused = 0;
  for (int s = 0; s < std::ssize(graph.nodes); ++s)
    for (int k = 0; k < std::ssize(graph.nodes[s].inputs); ++k) {
      if (!fuse(s, k)) continue;
      ++fused;
      if (!again) break;
      k = -1;
    }
  erase_dead_nodes(graph);
  return fused;
}

}  // namespace tessera
