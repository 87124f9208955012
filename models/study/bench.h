// bench(): measures the speed of a configuration's training step, bench_inference() that of its
// network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/graph/compile_options.h"
#include "tessera/models/run/classifier.h"
#include "tessera/models/study/profile.h"
#include "tessera/models/training/run.h"
#include "tessera/runtime/text/report.h"

namespace tessera {

struct BenchResult {
  double images_per_second = 0;  // at the median step
  double step_ms_p50 = 0, step_ms_p95 = 0;
  double first_step_ms = 0, compile_ms = 0;
  double loss = 0;                          // in the last step
  std::vector<double> losses;               // those of the first 20 steps
  int64_t parameters = 0;                   // trainable elements
  size_t peak_bytes = 0;                    // allocated for tensors, at most
  size_t arena_bytes = 0, total_bytes = 0;  // planned; the total includes parameters and slots
  int threads = 0;
  std::string kernels;  // native or eigen
  std::string device;   // "cpu:0"
  int processes = 1;
  double waited = 0;  // share of the time in which steps waited for other processes
  Report report() const;
};

// Times `steps` training steps on generated batches of the configuration's shape. Throws
// PlanInfeasible as require_fit() does for a timing (memory_limit.h), ConfigError for an unknown
// pass.
BenchResult bench(const Run& run, int64_t steps, const CompileOptions& options = {});

// The results of several runs of bench(), each with its own memory, and the ops whose time varies.
struct RepeatedBench {
  std::vector<double> step_ms = {};  // the median step of each repetition
  Spread step = {};                  // over step_ms
  // The ops whose slowest run exceeds the fastest by at least a tenth of the median, largest
  // difference first; none in eager mode, which has no program to observe.
  std::vector<ProfiledOp> varying = {};
  BenchResult last = {};
  Report report() const;
};
// Repeats at least once; ops are timed in as many steps. Throws what bench() throws.
RepeatedBench bench_repeatedly(const Run& run, int64_t steps, int64_t repetitions,
                               const CompileOptions& options = {});

// The latency of a configuration's network with its initial weights.
struct InferenceBench {
  double load_ms = 0;             // from weights in memory to the program of the first call
  double p50_ms = 0, p99_ms = 0;  // for one image, from bytes to logits
  double images_per_second = 0;   // for the median batch
  int64_t batch = 0;              // data.batch
  Classifier::Bytes one, many;    // planned, for one image and for a batch
  int threads = 0;
  std::string kernels;  // native or eigen
  Report report() const;
};

// Times `calls` calls with one image and as many with a batch. Throws ConfigError.
InferenceBench bench_inference(const Run& run, int64_t calls);

}  // namespace tessera
