// How fast a configuration's training step runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/compile_options.h"
#include "tessera/models/run/classifier.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/run.h"

namespace tessera {

struct BenchResult {
  double images_per_second = 0;  // of the median step
  double step_ms_p50 = 0, step_ms_p95 = 0;
  double first_step_ms = 0, compile_ms = 0;
  double loss = 0;                          // of the last step
  std::vector<double> losses;               // of the first four
  int64_t parameters = 0;                   // numbers that are trained
  size_t peak_bytes = 0;                    // asked of the machine for tensors, at most
  size_t arena_bytes = 0, total_bytes = 0;  // as planned; all: with parameters and slots
  int threads = 0;
  std::string kernels;  // native or eigen
  std::string device;   // "cpu:0"
  std::string json() const;
};

// Times `steps` training steps on generated batches of the configuration's shape. Throws
// PlanInfeasible as require_fit() does for a timing (memory_limit.h), ConfigError for an unknown
// pass.
BenchResult bench(const Run& run, int64_t steps, const CompileOptions& options = {});

// bench() several times over, each with memory of its own, and the ops whose time varies.
struct RepeatedBench {
  std::vector<double> step_ms = {};  // the median step of each repetition
  Spread step = {};                  // of these
  // Ops whose slowest run took at least a tenth of the median more than the fastest, those with the
  // largest difference first; none in eager mode, which has no program to observe.
  std::vector<ProfiledOp> varying = {};
  BenchResult last = {};
  std::string text() const;
  std::string json() const;
};
// Repeats at least once; ops are timed in as many steps. Throws what bench() throws.
RepeatedBench bench_repeatedly(const Run& run, int64_t steps, int64_t repetitions,
                               const CompileOptions& options = {});

// How fast the network of a configuration answers, with weights as they are initialised.
struct InferenceBench {
  double load_ms = 0;             // from the weights in memory to the first answer's program
  double p50_ms = 0, p99_ms = 0;  // of one image, from bytes to logits
  double images_per_second = 0;   // of the median batch
  int64_t batch = 0;              // data.batch
  Classifier::Bytes one, many;    // of the plan for one image, for a batch
  int threads = 0;
  std::string kernels;  // native or eigen
  std::string json() const;
};

// Times `calls` calls with one image and as many with a batch. Throws ConfigError.
InferenceBench bench_inference(const Run& run, int64_t calls);

}  // namespace tessera
