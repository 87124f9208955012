// What the fusing passes share.
#pragma once

#include "tessera/graph/graph.h"

namespace tessera {

// Where a node can be folded into another: the producer's only output is read by the consumer
// alone.
struct FusionSite {
  int producer = -1, consumer = -1;
  int fused_input = 0;  // the consumer's input that is the producer's output
  int at = -1;          // where both then run: in the place of one of them
};

// The site at input `fused_input` of node `consumer`, or producer -1: the value has another reader,
// is not made by a node with one output on the same device and of the consumer's full shape, or
// neither can be done in the other's place: the producer's work at the consumer's would read an
// overwritten value or keep more bytes alive, the consumer reads what is not there before.
FusionSite fusion_site(const Graph& graph, const std::vector<std::vector<int>>& users, int consumer,
                       int fused_input);

// Whether a persistent value that `node` reads has been overwritten when `later` runs.
bool overwritten_between(const Graph& graph, int node, int later);

// Input values of the fused node: the producer's, then the consumer's without `fused_input`.
std::vector<ValueId> fused_inputs(const Graph& graph, const FusionSite& site);

// Replaces the two nodes by `op` where the site says and keeps `readers` right. `place` is
// where in the model it then stands.
void replace(Graph& graph, std::vector<std::vector<int>>& users, const FusionSite& site, OpPtr op,
             std::vector<ValueId> inputs, std::string module_path);
// Of two ops that have become one: the place that lies within the other, else both, joined by '+'.
std::string joined_module_path(const std::string& first, const std::string& second);

// Inputs of the node whose op has absorbed another's.
std::vector<ValueId> fused_inputs(const FusedOp& fused, const Node& fused_consumers,
                                  const Node& other);

// Drops the nodes that replace() has emptied.
void erase_dead_nodes(Graph& graph);

}  // namespace tessera
