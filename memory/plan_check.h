// Checks plans. Shares no code with any planner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/memory/plan.h"

namespace tessera {

struct PlanFault {
  int64_t first = -1;   // index of a buffer; -1: the fault concerns the whole plan
  int64_t second = -1;  // the buffer that overlaps `first`, or -1
  std::string text;     // names buffers, times and byte ranges
};

// Returns nullopt if no two live buffers share a byte and all offsets are present, not below 0,
// aligned, as fixed, within plan.bytes and within the capacity; else the first fault in time.
// Thread-safe. O(n log n) in the number of buffers and gaps.
std::optional<PlanFault> check(const Problem& problem, const Plan& plan);

}  // namespace tessera
