// What the algorithms of a training step's ops take, in time and in scratch: trainer profile
// --algorithms. They round differently, so no budget chooses among them; cpu.kernels and
// cpu.winograd do.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/models/training/run.h"

namespace tessera {

struct AlgorithmTime {
  std::string name;  // native | winograd4 | direct | eigen | ...
  int64_t scratch_bytes = 0;
  double us = 0;  // the median
};

// An op that has several, and others of the step with the same settings and shapes.
struct OpAlgorithms {
  size_t node = 0;  // the first, in the program
  int count = 1;
  std::string op, place, shape;                // as in a profile
  std::vector<AlgorithmTime> algorithms = {};  // the one that runs first
};

struct AlgorithmTimes {
  std::vector<OpAlgorithms> ops;  // in the order that they run

  std::string text() const;
  std::string json() const;
};

// Runs each alone, on random numbers, `rounds` times in turn with the others. Throws what profile()
// throws, and ConfigError where the device is no CPU.
AlgorithmTimes algorithm_times(const Run& run, int64_t rounds);

}  // namespace tessera
