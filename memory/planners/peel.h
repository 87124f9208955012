// Peeling: leaves out buffers that can be placed whatever the others do. Private to
// memory/planners.
//
// A buffer overlaps others in time; wherever one of these is placed, it forbids as many offsets as
// both sizes allow. If all of them cannot forbid every offset within the capacity, the buffer may
// be placed last; without it, others may be placed last as well. Chaitin's allocator (1981) takes
// nodes with few neighbours out of a graph in the same way before it colours the rest.
//
//   capacity  +-----------------+    o forbids b all offsets in (o - b, o + o): a few small
//             |   bbb     ooo   |    neighbours always leave a free place
//             +-----------------+
#pragma once

#include <vector>

#include "tessera/memory/planners/placement.h"

namespace tessera::planning {

struct Peeled {
  std::vector<int> core;  // the remaining buffers, in the order given
  std::vector<int> rest;  // the others, in an order in which each finds a place
};

// Peels the chosen buffers. Requires offsets that are multiples of `step`, as all sizes and
// alignments above 1 are.
Peeled peel(const PreparedProblem& prepared, std::vector<int> chosen, int64_t step,
            int64_t capacity);

}  // namespace tessera::planning
