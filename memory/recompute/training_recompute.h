// A synthetic recomputation problem, the same for the same settings on every machine.
#pragma once

#include "tessera/memory/recompute/recompute.h"

namespace tessera {

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
