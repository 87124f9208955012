// The algorithms of a training step's ops: what each takes in time and scratch. On a CPU trainer
// profile --algorithms, on a GPU trainer tune. Those of a CPU round differently, so no budget
// chooses among them; cpu.kernels and cpu.winograd do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"
#include "tessera/models/training/run.h"

namespace tessera {

// One algorithm of an op by itself, on operands of random numbers: to time it and to look at what
// it computes. On the CPU, with the threads of cpu_context(). Not thread-safe.
class AlgorithmRun {
 public:
  // `in` are the op's inputs; what is not of floats is zeros. With `like`, they are its operands,
  // cast.
  AlgorithmRun(const Op& op, const Specs& in, const Algorithm& algorithm,
               const AlgorithmRun* like = nullptr);

  void run() { kernel_->run(cpu_context(), in_, out_, {scratch_->pointer, {}}); }
  template <class T>
  const T* result() const {
    return out_[0].as<T>();
  }

 private:
  void add(const Tensor& tensor, std::vector<Buffer>& to);

  std::unique_ptr<Kernel> kernel_;
  std::shared_ptr<Storage> scratch_;
  Tensors tensors_;
  std::vector<Buffer> in_, out_;
};

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

// Measures how the convolutions of a configuration are computed best on its GPU: trainer tune.
struct Tuning {
  size_t convolutions = 0;  // that are different
  size_t plans = 0;         // that ran
  // Time of the convolutions of one training step: by cuDNN's own choice, and by the fastest.
  double rule_microseconds = 0, tuned_microseconds = 0;
};

// For every step of the configuration's training; gpu.plans: tuned finds what is kept. Each is told
// in a line. Takes memory of the GPU for one convolution at a time, within memory.gpu_limit, and
// gives it back; runs no step. Throws DeviceError where the configuration does not run on a GPU.
Tuning tune_plans(const Run& run, const std::function<void(const std::string&)>& say);

}  // namespace tessera
