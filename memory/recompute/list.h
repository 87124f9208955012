// The built-in strategies, one function each, defined in the file of that name. Private to
// memory/recompute.
#pragma once

#include "tessera/memory/recompute/recompute.h"

namespace tessera {

const RecomputeStrategy& none_recompute();
const RecomputeStrategy& cheap_recompute();
const RecomputeStrategy& segments_recompute();
const RecomputeStrategy& greedy_recompute();
const RecomputeStrategy& best_recompute();
const RecomputeStrategy& exact_recompute();

}  // namespace tessera
