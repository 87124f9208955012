// The passes over a graph: each rewrites it in place and says how often it fired. lower.cc puts
// them in order; a pass knows ops only by what they declare.
#pragma once

#include "tessera/graph/graph.h"

namespace tessera {

// Lets nodes say what they compute in fewer steps, and lets readers of what a node only hands on
// read what it read; nodes that nobody reads then are left to eliminate_dead_code().
int simplify(Graph& graph);
// Drops nodes whose results nobody reads; updates always stay.
int eliminate_dead_code(Graph& graph);
// Merges nodes that compute the same from the same values.
int eliminate_common_subexpressions(Graph& graph);
// Runs nodes whose inputs are constants now, once and for all, where the result is not larger than
// what it is made of.
int fold_constants(Graph& graph);
// Joins a pointwise node into the pointwise node that alone reads it, and drops from the program
// what both compute.
int fuse_pointwise(Graph& graph);
// Where each channel of a result is multiplied with a constant, as batch norm does in evaluation,
// scales the constant weights that it is made with instead. Rounds otherwise than the two steps.
int fold_scales(Graph& graph);
// Folds a pointwise node into the op whose output it reads, where that op offers it.
int fuse_epilogues(Graph& graph);
// Drops a pointwise node whose readers all apply it themselves to what they read.
int fuse_prologues(Graph& graph);
// Where the result of a pointwise node waits long for its last readers, lets these compute it on
// the way from what is kept until then anyway.
int fuse_late_prologues(Graph& graph);
// Makes a node that reads what another makes, as the sums of a norm do, a part of that other one,
// which computes it while its result is in the cache.
int fuse_consumers(Graph& graph);
// Runs each update as soon as its gradient is there and the old version has been read, if the most
// bytes that live at once do not grow.
int order_updates(Graph& graph);
// Brings constants into the form in which the ops that read them compute with them.
int pack_constants(Graph& graph);

}  // namespace tessera
