// Measures how the convolutions of a configuration are computed best on its GPU: trainer tune.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace tessera {

class Run;  // models/training/run.h

struct Tuning {
  size_t convolutions = 0;  // that are different
  size_t plans = 0;         // that ran
  // Of the convolutions of one training step: by cuDNN's own choice, and by the fastest.
  double rule_microseconds = 0, tuned_microseconds = 0;
};

// For every step of the configuration's training; gpu.plans: tuned finds what is kept. Each is told
// in a line. Takes memory of the GPU for one convolution at a time, within memory.gpu_limit, and
// gives it back; runs no step. Throws DeviceError where the configuration does not run on a GPU.
Tuning tune_plans(const Run& run, const std::function<void(const std::string&)>& say);

}  // namespace tessera
