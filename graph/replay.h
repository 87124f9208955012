// Ownership replay: walks a program over its plan and remembers which value last wrote each byte.
//
// check() proves that the intervals it is given do not overlap; it cannot see that an interval is
// wrong. The replay starts from the graph alone: every read must find the bytes of the very value
// that is read, so a lifetime that ends too early is caught wherever it lets another value in.
#pragma once

#include <string>
#include <vector>

#include "tessera/graph/graph.h"
#include "tessera/graph/lifetimes.h"

namespace tessera {

// Nothing, or the first fault: the node, its op and place, the value it reads and who has written
// over it. offsets[b] is the place of block b in the arena of its device; slots are never shared.
std::string replay(const Graph& graph, const Lifetimes& lifetimes,
                   const std::vector<int64_t>& offsets);

}  // namespace tessera
