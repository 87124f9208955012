// Checks whether numbers are finite. Updates check before they write, so that a NaN never reaches a
// parameter; the search for the first non-finite op checks after each op.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/engine/op.h"

namespace tessera {

// Returns the index of the first NaN or infinity, or -1. T: a floating-point type.
template <class T>
int64_t first_non_finite(std::span<const T> values);

// Returns whether all elements of all buffers are finite. Runs on all threads.
bool all_finite(CpuContext& ctx, std::span<const Buffer> buffers);

// Returns whether all elements of `from` are finite, so that an update may be made from them. If
// not, increments Context::skipped_updates(), and the caller must not update.
bool may_update(CpuContext& ctx, std::initializer_list<Buffer> from);

}  // namespace tessera
