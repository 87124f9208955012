// Problems for tests and experiments, the same for the same settings on every machine: random ones,
// and the recomputation of a training step.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/memory/plan.h"
#include "tessera/memory/recompute/recompute.h"

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

// One training step of a residual network of bottleneck blocks, as the compiler makes it:
// convolutions, each followed by batch norm of several steps with addition and ReLU in the last,
// then the backward pass in reverse, and updates. Costs are nanoseconds counted from shapes.
struct TrainingNetwork {
  int batch = 32;
  int image = 224;
  std::vector<int> blocks = {3, 4, 6, 3};  // per stage; these are ResNet-50
  double flops_per_ns = 100;
  double bytes_per_ns = 10;
};
RecomputeProblem training_recompute(const TrainingNetwork& network);

}  // namespace tessera
