// Proof that a plan is right, or what is wrong with it. Shares no code with any planner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tessera/memory/plan.h"

namespace tessera {

struct PlanFault {
  int64_t first = -1;   // index of a buffer, -1 when the fault is about the plan as a whole
  int64_t second = -1;  // the buffer it overlaps with, or -1
  std::string text;     // names buffers, times and byte ranges
};

// Nothing when no two live buffers share a byte and offsets are present, at or above 0, aligned,
// where they were fixed, within plan.bytes and within the capacity; else the first fault in time.
// O(n log n) in the number of buffers and gaps. Thread-safe.
std::optional<PlanFault> check(const Problem& problem, const Plan& plan);

}  // namespace tessera
