// Is every number finite? What updates ask before they write, so that a NaN never reaches a
// parameter, and what the search for the first op that made one asks after each.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/engine/op.h"

namespace tessera {

// The first element that is NaN or infinite, or -1.
int64_t first_non_finite(std::span<const float> values);
int64_t first_non_finite(std::span<const double> values);

// Whether all elements of all of them are. Shares the work among the threads.
bool all_finite(CpuContext& ctx, std::span<const Buffer> buffers);

// Whether an update may be made from these buffers; otherwise counts it as refused in
// Context::refused_updates(), and the caller leaves what it would have updated as it is.
bool may_update(CpuContext& ctx, std::initializer_list<Buffer> from);

}  // namespace tessera
