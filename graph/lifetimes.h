// Lifetimes: which values share a block of bytes, and from when to when each block is needed.
//
// Time is the index of a node in the graph. A block lives from the node that makes its first value
// up to and with the last node that reads any value in it; a kernel's scratch lives for one node.
// Persistent values, arguments and values from outside have no block: their bytes are elsewhere.
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/memory/plan.h"

namespace tessera {

struct Block {
  int64_t lower = 0, upper = 0;  // half-open
  int64_t bytes = 0;
  ValueId value = -1;  // the first value that stands in it, or
  int node = -1;       // the node whose scratch it is
  bool slot = false;   // handed out: stands in the slots, not in the arena
  Device device = {};
};

struct Lifetimes {
  std::vector<Block> blocks;
  std::vector<int> block_of;       // of each value; -1: none
  std::vector<int64_t> offset_in;  // of each value: bytes into its block or its storage (views)
  std::vector<ValueId> root;       // of each value: where its bytes come from
  std::vector<int> scratch;        // of each node: its scratch block, or -1
  int reused = 0;                  // outputs that took the block of a dying input

  // The blocks of a device's arena, in order; `of_interval[i]` is the block of interval i.
  Problem problem(std::vector<int>* of_interval = nullptr, Device device = {}) const;
  // A line for each value that stands where another stood: "%9 takes the block of %4".
  std::string text(const Graph& graph) const;
};

// scratch_bytes has one entry for each node. With `reuse`, an output takes the block of an input
// that dies there, where the op says it may.
Lifetimes lifetimes(const Graph& graph, const std::vector<int64_t>& scratch_bytes,
                    bool reuse = true);

// The most bytes of the arenas, of all devices together, that are live at once.
int64_t peak_bytes(const Graph& graph, const std::vector<int64_t>& scratch_bytes);

}  // namespace tessera
