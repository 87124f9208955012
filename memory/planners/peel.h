// Leaves out what can be placed whatever the others do. Private to memory/planners.
//
// A buffer meets others during its life; wherever these stand, each forbids it as many offsets as
// both their sizes allow. If together they cannot forbid all that the capacity leaves it, then it
// may wait until all of them are placed; and without it others may wait as well. So Chaitin's
// allocator (1981) takes nodes with few neighbours out of a graph before it colours the rest.
//
//   capacity  +-----------------+    o forbids b all offsets in (o - b, o + o): with a few small
//             |   bbb     ooo   |    ones around there is always a place left
//             +-----------------+
#pragma once

#include <vector>

#include "tessera/memory/planners/placement.h"

namespace tessera::planning {

struct Peeled {
  std::vector<int> core;  // the buffers that are left, in the order given
  std::vector<int> rest;  // the others: in this order each finds a place
};

// Of the chosen buffers. Requires offsets that are multiples of `step`, as all sizes and alignments
// above 1 are.
Peeled peel(const PreparedProblem& prepared, std::vector<int> chosen, int64_t step,
            int64_t capacity);

}  // namespace tessera::planning
