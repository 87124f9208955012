// The graph passes. Each rewrites the graph in place and returns how often it fired. lower.cc is
// their order. A pass knows ops only by the facts that they declare.
#pragma once

#include "tessera/graph/graph.h"

namespace tessera {

// Replaces ops by simpler ones, and lets users of a forwarded value read its source. Nodes without
// users are left to eliminate_dead_code().
int simplify(Graph& graph);
// Drops nodes without users; updates always stay.
int eliminate_dead_code(Graph& graph);
// Merges nodes that compute the same from the same inputs.
int eliminate_common_subexpressions(Graph& graph);
// Runs nodes with constant inputs once, at compile time, if the result is not larger than the
// inputs.
int fold_constants(Graph& graph);
// Fuses a pointwise node into the pointwise node that is its only user, and drops duplicate
// instructions.
int fuse_pointwise(Graph& graph);
// Folds a per-channel multiplication by a constant, such as batch norm in evaluation, into the
// constant weights of the op before it. The result is rounded differently from that of the two
// nodes.
int fold_scales(Graph& graph);
// Fuses a pointwise node as an epilogue into the op whose output it reads.
int fuse_epilogues(Graph& graph);
// Fuses a pointwise node as a prologue into all its users, and drops the node.
int fuse_prologues(Graph& graph);
// Rematerializes a pointwise result that would stay live for long: its last users recompute it
// while they read their inputs, from values that are live at that time anyway.
int fuse_late_prologues(Graph& graph);
// Fuses a consumer, such as the sums of a norm, into its producer, which computes it while its
// result is in the cache (multi-output fusion).
int fuse_consumers(Graph& graph);
// Runs each update once its gradient is ready and the old version has been read, if the peak of
// live bytes does not grow.
int order_updates(Graph& graph);
// Converts constant inputs to the layout that the ops compute with (weight prepacking).
int pack_constants(Graph& graph);
// Fuses ops with the only user of their output, if that computes both part by part.
int fuse_chains(Graph& graph);

// Turns parameters and buffers that the graph does not update into constants with their current
// bytes.
void freeze_persistent(Graph& graph);
// Copies constants out of the memory of a Store, so that the store may be freed.
void copy_from_stores(Graph& graph);

}  // namespace tessera
