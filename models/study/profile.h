// Profile: the time of each op in a configuration's training step (trainer profile).
// AlgorithmTimes: time and scratch of each algorithm of these ops (trainer profile --algorithms on
// a CPU, trainer tune on a GPU).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/engine/op.h"
#include "tessera/engine/storage.h"
#include "tessera/graph/compile_options.h"
#include "tessera/runtime/machine_peaks.h"
#include "tessera/runtime/text/report.h"

namespace tessera {

struct Config;  // models/config/config.h
class Program;  // graph/program.h
class Run;      // run.h

struct ProfileOptions {
  int64_t steps = 20;  // timed steps, at least 1
  int64_t warmup = 3;  // untimed steps before, for at least 0.2 s; 0: none
  CompileOptions compile = {};
};

struct Spread {
  double min = 0, median = 0, max = 0;
};
Spread spread_of(std::vector<double> values);  // requires at least one

// A node of the program, except views. Includes the ops that were fused into it.
struct ProfiledOp {
  size_t node = 0;          // in the program
  std::string op;           // "conv2d", "conv2d recomputed" if recomputed (memory.budget)
  std::string module_path;  // "layer1.0.conv1"; outside of modules the tensor it updates
  std::string phase;        // forward | backward | update
  std::string algorithm;    // native | winograd4 | direct | eigen | default | ...
  std::string shape;        // "[4x8x8x3] [16x3x3x3] -> [4x8x8x16]"
  std::string dtype;        // float32 | bfloat16 | ...: its first input in memory
  bool pairs = false;       // multiplies in 16 bits, so that peaks.bf16_gflops is its peak
  Cost cost;
  Spread us;  // microseconds
};
ProfiledOp describe_op(const Program& program, size_t node);  // leaves out the times
// Returns the run, prepared, with a program whose ops can be timed and that fits into memory.
// Throws what profile() throws.
Run run_to_time(const Run& run, const CompileOptions& compile = {});
std::string op_title(const std::string& op,
                     const std::string& module_path);  // "conv2d layer1.0.conv1"

// An interval, in microseconds since the profile began.
struct TimeSpan {
  double begin = 0, end = 0;
};

struct Profile {
  std::string device, kernels, isa;
  int threads = 0;
  int64_t batch = 0, steps = 0;
  MachinePeaks peaks = {};
  // Steps ran alternately without and with timing of each op, both timed from filling the arguments
  // to the loss. The difference is the cost of timing.
  Spread step_ms = {}, observed_ms = {};
  Spread ops_ms = {};      // sum over all ops of a step
  std::string costs = {};  // memory.cost_model; empty on a GPU if it is "roofline", for CPUs
  double estimate_ms = 0;  // ops_ms as it estimates them
  std::vector<ProfiledOp> ops = {};  // in execution order
  std::vector<TimeSpan> plain_steps = {}, observed_steps = {};
  std::vector<TimeSpan> op_times = {};  // all ops, step after step

  double ops_us() const;  // the sum of the ops' medians

  // Returns the summary and tables of the kinds of ops and of the `most` slowest ops; 0: of all.
  // Its JSON has all ops, for diff_profiles().
  Report report(size_t most = 0) const;
  // Returns every op of every step as JSON for chrome://tracing and Perfetto (ui.perfetto.dev).
  std::string trace() const;
};

// Runs steps on generated batches, as bench() does. Waits for each op on a GPU. Throws what bench()
// throws, and ConfigError in eager mode, which has no program.
Profile profile(const Run& run, const ProfileOptions& options);

// Returns the differences of two profiles written as JSON (`trainer profile --json`): the steps,
// the kinds of ops, and the `most` ops (0: all) with the largest difference of medians, largest
// first. Ops match by name, module path and phase; an op that only one profile has counts with its
// whole time. The names are for messages. Throws ConfigError if a text is not such a profile or has
// another format.
std::string diff_profiles(const std::string& a, const std::string& name_a, const std::string& b,
                          const std::string& name_b, size_t most);

// A network in the profiles from which memory.cost_model estimates the times of others on this
// computer (trainer profile --machine).
struct SampleNetwork {
  const char* model;
  int64_t image_size, batch;
};

// Returns sample networks of the zoo (models/zoo/networks.h), small images first: channels from 3
// to 2,048, every kind of convolution that the zoo has.
const std::vector<SampleNetwork>& sample_networks();

// Returns JSON: {"format": kMachineFormat, "profiles": [Profile::json() of each network]}. `config`
// has the training settings (optimizer, threads); `started` is called before each network runs.
// Takes a minute or two for sample_networks(). Throws what profile() throws.
std::string profile_machine(const Config& config, const ProfileOptions& options,
                            std::span<const SampleNetwork> networks,
                            const std::function<void(const SampleNetwork&)>& started = {});

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

// CPU algorithms round differently, so memory.budget does not choose among them; cpu.kernels and
// cpu.winograd do.
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

// bench() measures the speed of a training step as a whole.
struct BenchResult {
  double images_per_second = 0;  // at the median step
  double step_ms_p50 = 0;
  double loss = 0;             // in the last step
  std::vector<double> losses;  // those of the first 20 steps
  double waited = 0;           // share of the time in which steps waited for other processes
  Report report;               // these, other times, the memory and the device
};

// Times `steps` training steps on generated batches of the configuration's shape. Throws
// PlanInfeasible as require_fit() does for a timing (memory_limit.h), ConfigError for an unknown
// pass.
BenchResult bench(const Run& run, int64_t steps, const CompileOptions& options = {});

// Repeats bench() at least once, each time with its own memory. Reports the spread of the median
// steps, and the ops whose slowest run exceeds the fastest by at least a tenth of the median,
// largest difference first; none in eager mode, which has no program to observe. Times ops in as
// many steps as there are repetitions. Throws what bench() throws.
Report bench_repeatedly(const Run& run, int64_t steps, int64_t repetitions,
                        const CompileOptions& options = {});

// Times `calls` calls of the configuration's network, with its initial weights or those of
// model.weights, with one image and as many with data.batch images, from bytes to logits. Reports
// also the time from weights in memory to the program of the first call, and the planned memory.
// Throws ConfigError, and CheckpointError if the weights do not fit.
Report bench_inference(const Run& run, int64_t calls);

}  // namespace tessera
