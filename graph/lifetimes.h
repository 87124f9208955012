// Lifetimes: which values share a block of memory, and when each block is live.
//
// Time is the index of a node in the graph. A block is live from the node that computes its first
// value through the last node that reads any value in it; scratch is live for one node. Persistent
// values, arguments and external values have no block: their memory is elsewhere.
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/memory/plan.h"

namespace tessera {

struct Block {
  int64_t lower = 0, upper = 0;  // half-open
  int64_t bytes = 0;
  ValueId value = -1;  // the first value in it, or
  int node = -1;       // the node whose scratch it is
  bool slot = false;   // a result: in the slots, not in the arena
  Device device = {};
};

struct Lifetimes {
  std::vector<Block> blocks;
  std::vector<int> block_of;       // for each value; -1: none
  std::vector<int64_t> offset_in;  // for each value: bytes into its block or its storage (views)
  std::vector<ValueId> root;       // for each value: the value whose bytes it is a part of
  std::vector<int> scratch;        // for each node: its scratch block, or -1
  int reused = 0;                  // outputs computed in place of an input

  // Returns the blocks of a device's arena, in order; of_interval[i] is the block of interval i.
  Problem problem(std::vector<int>* of_interval = nullptr, Device device = {}) const;
  // Returns a line for each value that reuses a block: "%9 reuses the block of %4".
  std::string text(const Graph& graph) const;
};

// Computes lifetimes. scratch_bytes has one entry for each node. If `reuse` is set, an output may
// take the block of an input whose last use is that node, if the op allows it (Op::may_reuse).
Lifetimes lifetimes(const Graph& graph, const std::vector<int64_t>& scratch_bytes,
                    bool reuse = true);

// Returns the peak of the live bytes in the arenas of all devices together.
int64_t peak_bytes(const Graph& graph, const std::vector<int64_t>& scratch_bytes);

// Ownership replay: runs through a program on its plan and tracks which value last wrote each byte.
//
// check() proves that the given intervals do not overlap, but not that they are right. The replay
// starts from the graph alone: each read must find the bytes of exactly the value that is read. A
// lifetime that ends too early is therefore detected if another value takes the memory.
//
// Returns the first fault, or an empty string: the node, its op and module path, the value it reads
// and the value that has overwritten it. offsets[b] is the offset of block b in the arena of its
// device; slots are never shared.
std::string replay(const Graph& graph, const Lifetimes& lifetimes,
                   const std::vector<int64_t>& offsets);

}  // namespace tessera
