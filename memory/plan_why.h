// BufferExplanation: the neighbours of a buffer in a plan, and the bytes saved without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera {

// The explanation of one buffer. All buffers are indices in the problem.
struct BufferExplanation {
  int64_t peak_time = 0;      // the time in its lifetime with the most live bytes
  int64_t load = 0;           // live bytes at peak_time, its own included
  bool makes_bound = false;   // whether no other time has more live bytes
  std::vector<int> beside{};  // other buffers live at peak_time, the largest first
  // The nearest buffers in memory that are live at a common time.
  std::vector<int> below{}, above{};
  int64_t hole_below = 0;  // free bytes down to `below`, or to address 0
  int64_t hole_above = 0;  // free bytes up to `above`, or to the top of the plan
  // Without the buffer: the bytes of the planner's plan, and the lower bound.
  int64_t bytes_without = 0, bound_without = 0;
};

// Explains `buffer`. Requires a plan that passes check() for the problem, and a buffer with bytes
// and a lifetime.
BufferExplanation why(const Problem& problem, const Plan& plan, int buffer, const Planner& planner);

// Returns why() as text.
std::string explanation_text(const Problem& problem, const Plan& plan, int buffer,
                             const Planner& planner);

}  // namespace tessera
