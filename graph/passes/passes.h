// The passes over a graph: each rewrites it in place and says how often it fired. lower.cc puts
// them in order; a pass knows ops only by what they declare.
#pragma once

#include "tessera/graph/graph.h"

namespace tessera {

// Drops steps whose results nobody reads; updates always stay.
int drop_dead_steps(Graph& graph);
// Merges steps that compute the same from the same values.
int merge_equal_steps(Graph& graph);
// Joins a pointwise step into the pointwise step that alone reads it.
int fuse_pointwise(Graph& graph);
// Folds a pointwise step into the op whose output it reads, where that op offers it.
int fuse_epilogues(Graph& graph);
// Runs each update as soon as its gradient is there and the old version has been read, if the most
// bytes that live at once do not grow.
int order_updates(Graph& graph);

}  // namespace tessera
