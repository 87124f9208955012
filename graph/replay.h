// Ownership replay: runs through a program on its plan and tracks which value last wrote each byte.
//
// check() proves that the given intervals do not overlap, but not that they are right. The replay
// starts from the graph alone: each read must find the bytes of exactly the value that is read. A
// lifetime that ends too early is therefore detected if another value takes the memory.
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/lifetimes.h"

namespace tessera {

// Returns the first fault, or an empty string: the node, its op and module path, the value it reads
// and the value that has overwritten it. offsets[b] is the offset of block b in the arena of its
// device; slots are never shared.
std::string replay(const Graph& graph, const Lifetimes& lifetimes,
                   const std::vector<int64_t>& offsets);

}  // namespace tessera
