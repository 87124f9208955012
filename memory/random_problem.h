// Random problems, the same for the same settings on every machine: for tests and experiments.
#pragma once

#include <cstdint>

#include "tessera/memory/plan.h"

namespace tessera {

// The settings of random_problem(). Shares are fractions of the buffers, from 0 to 1.
struct RandomProblem {
  int64_t buffers = 100;
  uint64_t seed = 1;
  int64_t times = 100;        // beginnings are below this time
  int64_t largest = 1 << 20;  // sizes are 1 to this many bytes
  double long_lived = 0.25;   // share with lifetimes up to `times`; others up to times / 8
  double aligned = 0;         // share with an alignment, a power of 2 up to largest_alignment
  int64_t largest_alignment = 64;
  double gaps = 0;   // share with gaps
  double fixed = 0;  // share with a fixed offset; their address ranges are disjoint
  double hints = 0;  // share with a hint
  double empty = 0;  // share without bytes, and share without a lifetime
};

// Returns a problem with ids from 0. Requires that `times`, `largest` and `largest_alignment` are
// at least 1, and that buffers * (largest + largest_alignment) fits 62 bits.
Problem random_problem(const RandomProblem& settings);

}  // namespace tessera
