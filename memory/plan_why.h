// Why a buffer stands where it stands, and what it costs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/memory/plan.h"

namespace tessera {

// Buffers are named by their index in the problem.
struct BufferExplanation {
  int64_t peak_time = 0;      // the time in its life at which most bytes are live
  int64_t load = 0;           // these bytes, its own included
  bool makes_bound = false;   // at no time are more bytes live than then
  std::vector<int> beside{};  // the others that are live then, the largest first
  // Of those that share a time with it, the nearest that end below it and those that begin above,
  // with the bytes in between.
  std::vector<int> below{}, above{};
  int64_t hole_below = 0;  // down to the nearest, or to address 0
  int64_t hole_above = 0;  // up to the nearest, or to the top of the plan
  // What is left without it: the plan of the same planner, and the lower bound.
  int64_t bytes_without = 0, bound_without = 0;
};

// Requires a plan that passes check() for the problem, and a buffer that takes room.
BufferExplanation why(const Problem& problem, const Plan& plan, int buffer, const Planner& planner);

// The same in words.
std::string explanation_text(const Problem& problem, const Plan& plan, int buffer,
                             const Planner& planner);

}  // namespace tessera
