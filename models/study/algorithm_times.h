// AlgorithmTimes: time and scratch of each algorithm of a training step's ops (trainer profile
// --algorithms on a CPU, trainer tune on a GPU). CPU algorithms round differently, so memory.budget
// does not choose among them; cpu.kernels and cpu.winograd do.
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
#include "tessera/runtime/text/report.h"

namespace tessera {

// One algorithm of an op by itself, on random operands, to time it and to examine its result. Runs
// on the CPU with the threads of cpu_context(). Not thread-safe.
class AlgorithmRun {
 public:
  // `in` are the specs of the op's inputs; inputs that are not floating point are zeros. If `like`
  // is given, its operands are cast and used.
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
  double us = 0;  // median
};

// An op with several algorithms; counts the ops of the step with equal attributes and shapes.
struct OpAlgorithms {
  size_t node = 0;  // the first of them in the program
  int count = 1;
  std::string op, module_path, shape;          // see ProfiledOp
  std::vector<AlgorithmTime> algorithms = {};  // first the one that runs
};

struct AlgorithmTimes {
  std::vector<OpAlgorithms> ops;  // in execution order

  Report report() const;
};

// Runs each algorithm alone, on random numbers, `rounds` times, alternating with the others. Throws
// what profile() throws, and ConfigError if the device is not a CPU.
AlgorithmTimes algorithm_times(const Run& run, int64_t rounds);

// The fastest cuDNN plans for the convolutions of a configuration (trainer tune).
struct Tuning {
  size_t convolutions = 0;  // distinct ones
  size_t plans = 0;         // plans that ran
  // The time of all convolutions of one training step, with cuDNN's own choice and with the fastest
  // plans.
  double heuristic_microseconds = 0, autotuned_microseconds = 0;
};

// Tunes every step of the configuration's training, and prints a line for each convolution;
// gpu.plans: autotuned then uses the stored result. Uses GPU memory for one convolution at a time,
// within memory.gpu_limit, and frees it; runs no step. Throws DeviceError if the configuration does
// not run on a GPU.
Tuning tune_plans(const Run& run, const std::function<void(const std::string&)>& print);

}  // namespace tessera
