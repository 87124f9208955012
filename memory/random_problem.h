// Problems at random, the same for the same settings on every machine: for tests and experiments.
#pragma once

#include <cstdint>

#include "tessera/memory/plan.h"

namespace tessera {

// Shares are of the buffers, from 0 to 1.
struct RandomProblem {
  int64_t buffers = 100;
  uint64_t seed = 1;
  int64_t times = 100;        // beginnings are below it
  int64_t largest = 1 << 20;  // sizes are 1 to this many bytes
  double long_lived = 0.25;   // live up to `times` long, the others up to an eighth of it
  double aligned = 0;         // have an alignment, a power of 2 up to largest_alignment
  int64_t largest_alignment = 64;
  double gaps = 0;   // have gaps
  double fixed = 0;  // stand at an offset; these never clash, each has an address range of its own
  double hints = 0;  // have a hint
  double empty = 0;  // have no bytes, and as many no lifetime
};

// Ids are numbers from 0. Requires numbers of at least 1 where there must be some, and that
// buffers * (largest + largest_alignment) fits 62 bits.
Problem random_problem(const RandomProblem& settings);

}  // namespace tessera
